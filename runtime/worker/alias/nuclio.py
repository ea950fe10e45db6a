"""The SDK, by the name that Nuclio's documented snippets import it by, where no package has that name."""

import sys

import nuclio_sdk

sys.modules[__name__] = nuclio_sdk
