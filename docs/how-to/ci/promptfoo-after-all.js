// An extension of promptfoo: after an evaluation, its paired comparison with an earlier one.
//
//   extensions:
//     - file://promptfoo-after-all.js:afterAll
//
// PCSUITE_BASELINE names the results to compare with; without it nothing happens. PCSUITE_ARGUMENTS are further words for
// `pcsuite compare`, parted by blanks (--margin 0.05), PCSUITE_COMMAND is the command where it is not on the path.
const { spawnSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

function compare(context) {
  const baseline = process.env.PCSUITE_BASELINE;
  if (!baseline) return;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pcsuite-'));
  try {
    // The shape of `promptfoo eval -o results.json`, which is written only after this.
    const file = path.join(folder, 'evaluation.json');
    const results = { version: 3, timestamp: new Date().toISOString(), results: context.results, prompts: context.prompts };
    fs.writeFileSync(file, JSON.stringify({ evalId: context.evalId, results, config: context.config }));
    const words = (process.env.PCSUITE_ARGUMENTS || '').split(' ').filter(Boolean);
    const command = process.env.PCSUITE_COMMAND || 'pcsuite';
    const done = spawnSync(command, ['compare', baseline, file, '--from', 'promptfoo', ...words], { encoding: 'utf8' });
    console.log(done.error ? `pcsuite: ${done.error.message}` : done.stdout + done.stderr);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

// promptfoo before 0.117 gives the hook's name first, later versions the context alone where a hook is named.
module.exports = async function afterAll(hook, context) {
  if (typeof hook === 'object') compare(hook);
  else if (hook === 'afterAll') compare(context);
};
module.exports.afterAll = module.exports;
