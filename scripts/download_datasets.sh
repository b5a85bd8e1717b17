#!/usr/bin/env bash
# Fetch the original published benchmark files. Needs the network, curl and unzip.
#
#   scripts/download_datasets.sh [--dry-run] [--only A,B] [DIR] [dataset …]      (default: originals, all datasets)
#   scripts/download_datasets.sh --only conll,ag,gsm8k,csqa,truthfulqa,fever
#   pcsuite export-datasets --from originals
#
# Datasets go by the names that pcsuite export-datasets --only takes, task ids included. Downloads go on where they stopped,
# and a file that is complete is not fetched again. What cannot be fetched is named at the end, and the exit status is 1.
# --dry-run says what would be fetched. Counts are checked by pcsuite export-datasets.
# CoNLL-2003 (Reuters text) and Spider (its authors' own drive) have no plain public address: see below.
set -euo pipefail

known=(ag_news gsm8k commonsenseqa truthfulqa fever svamp strategyqa boolq trec nq_open conll2003 spider conll04 scierc)
root=
wanted=()
failed=()
dry=

# folder_of NAME: the folder of a dataset, by any of its names; nothing for what is no dataset
folder_of() {
  case "$1" in
    conll | conll03 | conll2003 | conll_2003 | conll03_ner_json) echo conll2003 ;;
    ag | agnews | ag_news | agnews_json) echo ag_news ;;
    gsm | gsm8k) echo gsm8k ;;
    csqa | commonsense | commonsenseqa | commonsense_qa | csqa_json) echo commonsenseqa ;;
    truthfulqa | truthful_qa | truthful_qa_gen | truthful_qa_generation | truthfulqa_generation | truthfulqa_gen) echo truthfulqa ;;
    truthfulqa_mc | truthful_qa_mc | truthful_qa_multiple_choice) echo truthfulqa ;;
    fever | fever_json) echo fever ;;
    spider | spider_sql) echo spider ;;
    svamp) echo svamp ;;
    strategyqa | strategy_qa) echo strategyqa ;;
    boolq | bool_q) echo boolq ;;
    trec) echo trec ;;
    nq | nqopen | nq_open | natural_questions) echo nq_open ;;
    conll04 | conll04_relations_json) echo conll04 ;;
    scierc | scierc_relations_json) echo scierc ;;
  esac
}

# want NAMES: take datasets, parted by commas
want() {
  local name folder
  for name in ${1//,/ }; do
    folder=$(folder_of "$name")
    if [ -z "$folder" ]; then
      echo "unknown dataset '$name'; choose from: ${known[*]}" >&2
      exit 2
    fi
    wanted+=("$folder")
  done
}

while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry=yes ;;
    --only | --cache-dir)
      [ $# -gt 1 ] || { echo "$1 needs a value" >&2; exit 2; }
      if [ "$1" = --only ]; then want "$2"; else root="$2/originals"; fi
      shift
      ;;
    --only=*) want "${1#--only=}" ;;
    -h | --help) sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    -*) echo "unknown option '$1'; see --help" >&2; exit 2 ;;
    *)
      # The first word is the folder, unless it is a dataset's name or a list of such.
      if [ -z "$root" ] && [ ${#wanted[@]} -eq 0 ] && [ -z "$(folder_of "${1%%,*}")" ]; then root=$1; else want "$1"; fi
      ;;
  esac
  shift
done
root=${root:-originals}

asked_for() {
  [ ${#wanted[@]} -eq 0 ] && return 0
  case " ${wanted[*]} " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

sha256_of() {
  if command -v sha256sum > /dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

# fetch TARGET URL CHECK: CHECK is the published file's sha256 or, where that is not known, its smallest
# plausible size in bytes, which guards against error pages that pretend to be files
fetch() {
  local target="$root/$1" url=$2 check=$3 part="$root/$1.part"
  if [ -s "$target" ]; then
    echo "have   $1"
    return 0
  fi
  if [ -n "$dry" ]; then
    echo "would fetch $1"
    return 0
  fi
  mkdir -p "$(dirname "$target")"
  echo "fetch  $1"
  if ! curl --fail --location --silent --show-error --retry 4 --retry-delay 2 --continue-at - --output "$part" "$url"; then
    failed+=("$1 ($url)")
    return 0
  fi
  if [ ${#check} -eq 64 ]; then
    if [ "$(sha256_of "$part")" != "$check" ]; then
      failed+=("$1 ($url is not the published file: its sha256 differs)")
      rm -f "$part"
      return 0
    fi
  elif [ "$(wc -c < "$part")" -lt "$check" ]; then
    failed+=("$1 ($url answered with less than $check bytes)")
    rm -f "$part"
    return 0
  fi
  mv "$part" "$target"
}

github=https://raw.githubusercontent.com

if asked_for ag_news; then
  base=$github/mhjabreel/CharCnn_Keras/master/data/ag_news_csv
  fetch ag_news/train.csv "$base/train.csv" 20000000
  fetch ag_news/test.csv "$base/test.csv" 521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699
fi
if asked_for gsm8k; then
  base=$github/openai/grade-school-math/master/grade_school_math/data
  fetch gsm8k/train.jsonl "$base/train.jsonl" 17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465
  fetch gsm8k/test.jsonl "$base/test.jsonl" 3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14
fi
if asked_for commonsenseqa; then
  base=https://s3.amazonaws.com/commensenseqa
  fetch commonsenseqa/train_rand_split.jsonl "$base/train_rand_split.jsonl" \
    58ffa3c8472410e24b8c43f423d89c8a003d8284698a6ed7874355dedd09a2fb
  fetch commonsenseqa/dev_rand_split.jsonl "$base/dev_rand_split.jsonl" \
    3210497fdaae614ac085d9eb873dd7f4d49b6f965a93adadc803e1229fd8a02a
fi
if asked_for truthfulqa; then
  # the main branch now holds the 790-question revision; the 817 questions are an earlier commit
  base=$github/sylinrl/TruthfulQA/013686a06be7a7bde5bf8223943e106c7250123c
  fetch truthfulqa/v1/TruthfulQA.csv "$base/TruthfulQA.csv" \
    f9bd9e859cc102cb1f647f1064da7e009be752c416845cf9fa56e6eaae403a7d
  fetch truthfulqa/v1/mc_task.json "$base/data/mc_task.json" \
    b3799639bc76c939836d587de7d30b48d91012cb34be04806d33106ce06c162a
fi
if asked_for fever; then
  base=https://fever.ai/download/fever
  fetch fever/paper_dev.jsonl "$base/paper_dev.jsonl" \
    41158707810008747946bf23471e82df53e77a513524b9e3ec1c2e674ef5ef8c
  fetch fever/train.jsonl "$base/train.jsonl" 10000000
  fetch fever/wiki-pages.zip "$base/wiki-pages.zip" 1000000000
  if [ -s "$root/fever/wiki-pages.zip" ] && [ ! -d "$root/fever/wiki-pages" ]; then
    unzip -q "$root/fever/wiki-pages.zip" -d "$root/fever"
  fi
fi
if asked_for svamp; then
  fetch svamp/SVAMP.json "$github/arkilpatel/SVAMP/main/SVAMP.json" \
    5be77703a6d891ae476d7c082787ad361392aa02453b132516cdd5f4e7934e3e
fi
if asked_for strategyqa; then
  base=$github/eladsegal/strategyqa/main/data/strategyqa
  fetch strategyqa/train.json "$base/train.json" 3000000
  fetch strategyqa/dev.json "$base/dev.json" 0d94842ffb022db8fd5ecd2168b785d5cf67f6faf64f665476bad544a3eb9dde
fi
if asked_for boolq; then
  # the bucket is reported to have served other content at times, so only what can be checked is taken
  # from it; the training split comes from the hub: pcsuite export-datasets --only boolq
  fetch boolq/dev.jsonl https://storage.googleapis.com/boolq/dev.jsonl \
    ebc29ea3808c5c611672384b3de56e83349fe38fc1fe876fd29b674d81d0a80a
fi
if asked_for trec; then
  fetch trec/qc.zip "$github/nltk/nltk_data/gh-pages/packages/corpora/qc.zip" \
    091fb01e50883014d150acb7d5013d787136968b3f955ae01725a65e7e80f304
fi
if asked_for nq_open; then
  base=$github/google-research-datasets/natural-questions/master/nq_open
  fetch nq_open/NQ-open.train.jsonl "$base/NQ-open.train.jsonl" 5000000
  fetch nq_open/NQ-open.dev.jsonl "$base/NQ-open.dev.jsonl" \
    f15567f38099f3615f5b8a685c0aef449c11ad90d3da3735e8d1b98115b40616
fi
if asked_for conll2003 && [ ! -s "$root/conll2003/test.txt" ]; then
  failed+=("conll2003: put train.txt, dev.txt and test.txt (or eng.train, eng.testa, eng.testb) into $root/conll2003;
    the text belongs to Reuters, see https://www.clips.uantwerpen.be/conll2003/ner/")
fi
if asked_for spider && [ ! -s "$root/spider/dev.json" ]; then
  failed+=("spider: put dev.json, tables.json and database/ into $root/spider;
    the link is at https://yale-lily.github.io/spider")
fi

# The relation sets are fetched only where they are named: no address of theirs has a published checksum.
if [ ${#wanted[@]} -gt 0 ] && asked_for conll04 && [ ! -d "$root/conll04" ]; then
  failed+=("conll04: put conll04_train.json, conll04_dev.json and conll04_test.json (SpERT's files) into $root/conll04")
fi
if [ ${#wanted[@]} -gt 0 ] && asked_for scierc && [ ! -d "$root/scierc" ]; then
  failed+=("scierc: put the processed train.json, dev.json and test.json into $root/scierc;
    the link is at http://nlp.cs.washington.edu/sciIE")
fi

if [ ${#failed[@]} -gt 0 ]; then
  echo >&2
  for line in "${failed[@]}"; do echo "missing: $line" >&2; done
  exit 1
fi
echo "next: pcsuite export-datasets --from $root"
