"""BuildingSpec accepts what an extraction may leave out and nothing of another type."""

import pytest
from pydantic import ValidationError

from pcsuite.verifier.model import BuildingSpec


@pytest.mark.slow
def test_only_the_name_of_an_item_is_required():
    BuildingSpec.model_validate({"windows": [{"name": "101"}]})
    for wrong in ({"windows": [{"area": 3}]}, {"project": {"climate_zone": 17}}, {"colour": "red"}):
        with pytest.raises(ValidationError):
            BuildingSpec.model_validate(wrong)


def test_types_are_strict():
    for wrong in ({"climate_zone": "7"}, {"climate_zone": 7.5}, {"attached_garage": "yes"}, {"city": 5}):
        with pytest.raises(ValidationError):
            BuildingSpec.model_validate({"project": wrong})
