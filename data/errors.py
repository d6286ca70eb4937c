"""Every error that a user can act on. Anything else is a bug and keeps its traceback.

SagedeskError
├── InputError              a file, row or value from outside cannot be used
│   └── ReplyError          a model's reply cannot be parsed (counted; rarely leaves the engine)
├── NotFoundError           nothing exists under the given name or id
├── ConflictError           it already exists, or somebody else holds it or has changed it
│   └── StoreBusyError      another process owns the store
├── StoreError              the store cannot be opened, migrated, read or written
├── PermissionDeniedError   the actor's role does not allow it
├── SignInError             wrong name, password, link, or an expired session
├── BackendError            a generator or verifier backend cannot run
│   └── ModelError          a model folder or id cannot be loaded
├── LabelStudioError        Label Studio refused, failed or sent an invalid answer
│   ├── LabelStudioUnavailableError   down, slow or 5xx: retried, then "stale since"
│   └── LabelStudioRejectedError      4xx: retrying will not help
├── ReleaseError            a release cannot be created, or does not match its manifest
├── ReportError             a stored report is damaged, or of a version that this one cannot read
├── JobError                a job cannot start, or failed
│   └── JobCancelledError   a user asked it to stop
└── SetupError              the environment lacks something (port, disk, browser, package)

A message says what was being done, to what, and what to do next. The command line prints it as one line
and exits with 1; a page shows it unchanged.
"""


class SagedeskError(Exception):
    """Root of the tree; `str(error)` is one clear line."""


class InputError(SagedeskError):
    """A file, row or value from outside cannot be used."""


class ReplyError(InputError):
    """A model's reply cannot be parsed."""


class NotFoundError(SagedeskError):
    """Nothing exists under the given name or id."""


class ConflictError(SagedeskError):
    """It already exists, or somebody else holds it or has changed it."""


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
    """Label Studio refused, failed or sent an invalid answer."""


class LabelStudioUnavailableError(LabelStudioError):
    """Down, slow or 5xx: worth retrying later."""


class LabelStudioRejectedError(LabelStudioError):
    """A 4xx: retrying the same call will not help."""


class ReleaseError(SagedeskError):
    """A release cannot be created, or does not match its manifest."""


class ReportError(SagedeskError):
    """A stored report is damaged, or of a version that this one cannot read."""


class JobError(SagedeskError):
    """A job cannot start, or failed."""


class JobCancelledError(JobError):
    """A user asked the job to stop."""


class SetupError(SagedeskError):
    """The environment lacks something."""


def first_line(exc: BaseException) -> str:
    """Of what a library's error says, for the message of one of ours; the error's name where it says nothing."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
