import pytest

from minilm import texts_of_fortunes


@pytest.fixture(scope="session")
def texts():
    return texts_of_fortunes(128)
