"""The titles and sentences of error pages for people. The page adds the sentence of the error for developers."""

from __future__ import annotations

from django.utils.translation import gettext_noop

from config.infrastructure.errors import Fault, SiteFault
from oauth_bridge.errors import OAuthFault

# The title and the sentence for people, by status, for all pages of the site.
# If the sentence is empty, the page shows the sentence of the error.
PAGE_WORDS = {
    400: (
        gettext_noop("This can't be read"),
        gettext_noop("Your browser sent something that can't be read here. Go back and try again."),
    ),
    403: (gettext_noop("Not allowed"), ""),
    404: (
        gettext_noop("There is no page here"),
        gettext_noop("The address may be mistyped, or the page has moved."),
    ),
    405: (gettext_noop("Not possible here"), gettext_noop("Go back and use the buttons of the page.")),
    413: (
        gettext_noop("This form is too large"),
        gettext_noop("Go back, shorten what you typed or pasted, and send it again."),
    ),
    431: (
        gettext_noop("The browser sent too much"),
        gettext_noop(
            "If it is the Cookie header, delete the cookies of this site and of the sites above it, then try again."
        ),
    ),
    429: (gettext_noop("Please wait"), ""),
    500: (gettext_noop("This did not work"), ""),
    503: (gettext_noop("Back in a moment"), ""),
}
# The application and the browser did nothing wrong: the page shows the sentence of the error.
HOST_FAULTS = (SiteFault.HOST, SiteFault.HOST_NAMED, SiteFault.HOST_CHANGED)
HOST_TITLE = gettext_noop("The service is not set up for this address")
SIGN_IN_TITLE = gettext_noop("This sign-in can't go on")
SIGN_IN_MESSAGE = gettext_noop(
    "The application that sent you here made a mistake in its link. Nothing was shared, and you did nothing wrong."
)
SIGN_IN_ADVICE = gettext_noop("Go back to the application and try again. If it stays so, tell its operator.")
SIGN_OUT_TITLE = gettext_noop("This sign-out can't go on")
SIGN_OUT_MESSAGE = gettext_noop(
    "The application that sent you here made a mistake in its link. If you were signed in here, you still are."
)
DAMAGED_MESSAGE = gettext_noop("The link to this page is damaged or incomplete. Nothing was shared.")
SWITCHED_OFF_SIGN_OUT_MESSAGE = gettext_noop(
    "The application that sent you here is switched off. If you were signed in here, you still are."
)
# The sentence for people if the application of the link is known.
APPLICATION_WORDS: dict[Fault, str] = {
    OAuthFault.CLIENT_DISABLED: gettext_noop(
        "%(name)s is switched off here, so nobody can sign in to it now. Nothing was shared, and you did nothing wrong."
    ),
    OAuthFault.MISSING: gettext_noop(
        "%(name)s sent you here without the callback address that leads you back."
        " Nothing was shared, and you did nothing wrong."
    ),
    OAuthFault.REDIRECT_URI_MISMATCH: gettext_noop(
        "%(name)s sent you here with a callback address that this service doesn't know."
        " Nothing was shared, and you did nothing wrong."
    ),
}
