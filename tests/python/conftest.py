import numpy as np
import pytest

import anydim
import models


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Kernels of all tests, so that each is compiled once."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def build(cache):
    def build(text, **options):
        return anydim.compile(
            text.encode(),
            **{"cache_dir": cache, "database": False, "threads": 2, "warn_level": 2, **options})

    return build


@pytest.fixture(scope="session")
def dense(build):
    return build(models.DENSE)


@pytest.fixture(scope="session")
def encoder(build):
    return build(models.ENCODER, masked_rows="zero")


@pytest.fixture
def random():
    return np.random.default_rng(7)
