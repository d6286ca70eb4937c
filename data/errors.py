"""Every error that a person can act on. Anything else is a bug and keeps its traceback.

SagedeskError
├── InputError              a file, row or value from outside is not usable
│   └── ReplyError          a model's reply does not parse (counted, seldom raised past the engine)
├── NotFoundError           the thing named does not exist
├── ConflictError           it exists already, or somebody else holds or changed it
│   └── StoreBusyError      another process owns the store
├── StoreError              the store cannot be opened, migrated, read or written
├── PermissionDeniedError   the actor's role does not allow it
├── SignInError             wrong name, password, link, or an expired session
├── BackendError            a generator or verifier backend cannot run
│   └── ModelError          a model folder or id cannot be loaded
├── LabelStudioError        Label Studio refused, failed or answered nonsense
│   ├── LabelStudioUnavailableError   down, slow or 5xx: retried, then "stale since"
│   └── LabelStudioRejectedError      4xx: retrying will not help
├── ReleaseError            a release cannot be made, or is not what its manifest says
├── JobError                a job cannot start or went wrong
│   └── JobCancelledError   a person asked it to stop
└── SetupError              the environment lacks something (port, disk, browser, package)

A message says what was being done, to what, and what to do next. The command line prints it as one line
and exits with 1; a page shows it as it is.
"""


class SagedeskError(Exception):
    """Root of the tree; `str(error)` is one clear line."""


class InputError(SagedeskError):
    """A file, row or value from outside is not usable."""


class ReplyError(InputError):
    """A model's reply does not parse."""


class NotFoundError(SagedeskError):
    """The thing named does not exist."""


class ConflictError(SagedeskError):
    """It exists already, or somebody else holds or changed it."""


class StoreBusyError(ConflictError):
    """Another process owns the store."""


class StoreError(SagedeskError):
    """The store cannot be opened, migrated, read or written."""


class PermissionDeniedError(SagedeskError):
    """The actor's role does not allow it."""


class SignInError(SagedeskError):
    """Wrong name, password or link, or an expired session."""


class BackendError(SagedeskError):
    """A generator or verifier backend cannot run."""


class ModelError(BackendError):
    """A model folder or id cannot be loaded."""


class LabelStudioError(SagedeskError):
    """Label Studio refused, failed or answered nonsense."""


class LabelStudioUnavailableError(LabelStudioError):
    """Down, slow or 5xx: worth another try later."""


class LabelStudioRejectedError(LabelStudioError):
    """A 4xx: retrying the same call will not help."""


class ReleaseError(SagedeskError):
    """A release cannot be made, or is not what its manifest says."""


class JobError(SagedeskError):
    """A job cannot start or went wrong."""


class JobCancelledError(JobError):
    """A person asked the job to stop."""


class SetupError(SagedeskError):
    """The environment lacks something."""
