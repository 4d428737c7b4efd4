"""Django's test client stands for a browser at the service's own address."""

import pytest


@pytest.fixture(autouse=True)
def origins(settings):
    settings.BASE_URL = settings.AUTH_URL = "http://testserver"
