"""The use cases that may be called from outside the desk's process, by name, and their values as JSON and back.

Arguments and results pass through pydantic on the use case's own annotations, so that a caller gets the same
dataclass from a running desk as from a call in its own process. Refuses names that are not listed here.
"""

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from pydantic import TypeAdapter, ValidationError

from data.errors import InputError, NotFoundError
from ui.desk.context import Actor, Desk

USE_CASES: Final[Mapping[str, str]] = {
    "account.add": "ui.desk.usecases.accounts:add_account",
    "account.link": "ui.desk.usecases.accounts:make_link",
    "account.list": "ui.desk.usecases.accounts:list_accounts",
    "account.set-active": "ui.desk.usecases.accounts:set_active",
    "doctor": "ui.desk.usecases.doctor:diagnose",
    "generation.estimate": "ui.desk.usecases.generation:estimate",
    "generation.start": "ui.desk.usecases.generation:start_generation",
    "generator.refresh": "ui.desk.usecases.learning:refresh_generator",
    "import.preview": "ui.desk.usecases.imports:preview_import",
    "import.refusals": "ui.desk.usecases.imports:refusals",
    "import.start": "ui.desk.usecases.imports:start_import",
    "model.compare": "ui.desk.usecases.gates:compare_models",
    "model.flips": "ui.desk.usecases.gates:flipped",
    "model.list": "ui.desk.usecases.models:list_models",
    "model.promote": "ui.desk.usecases.model_promotion:promote_model",
    "model.rollback": "ui.desk.usecases.model_promotion:rollback_model",
    "model.show": "ui.desk.usecases.models:show_model",
    "overview": "ui.desk.usecases.overview:overview",
    "question.duplicates": "ui.desk.usecases.questions:duplicate_questions",
    "question.list": "ui.desk.usecases.questions:search_questions",
    "question.show": "ui.desk.usecases.questions:show_question",
    "queue.status": "ui.desk.usecases.review:queue_status",
    "release.create": "ui.desk.usecases.releases:create_release",
    "release.list": "ui.desk.usecases.releases:list_releases",
    "release.show": "ui.desk.usecases.releases:show_release",
    "release.verify": "ui.desk.usecases.releases:verify_release",
    "run.cancel": "ui.desk.usecases.runs:cancel_run",
    "run.collect": "ui.desk.usecases.run_transfer:collect_run",
    "run.export": "ui.desk.usecases.run_transfer:export_run",
    "run.list": "ui.desk.usecases.runs:list_runs",
    "run.log": "ui.desk.usecases.runs:run_log",
    "run.metrics": "ui.desk.usecases.runs:run_metrics",
    "run.progress": "ui.desk.usecases.runs:run_progress",
    "run.resume": "ui.desk.usecases.runs:resume_run",
    "run.show": "ui.desk.usecases.runs:show_run",
    "sample.load": "ui.desk.usecases.samples:load_sample_project",
    "schedule.due": "ui.desk.usecases.schedules:due",
    "schedule.list": "ui.desk.usecases.schedules:list_schedules",
    "schedule.set": "ui.desk.usecases.schedules:set_schedule",
    "store.backup": "ui.desk.usecases.overview:back_up",
    "sync.now": "ui.desk.usecases.sync:sync_now",
    "sync.status": "ui.desk.usecases.sync:sync_status",
    "training.preview": "ui.desk.usecases.training_data:preview_training",
    "variant.list": "ui.desk.usecases.questions:list_variants",
    "variant.show": "ui.desk.usecases.questions:show_variant",
    "verification.start": "ui.desk.usecases.verification:start_verification",
    "verifier.retrain": "ui.desk.usecases.learning:retrain_verifier",
}


@dataclass(frozen=True, slots=True)
class RemoteUseCase:
    """A use case with its types, from its annotations. `arguments` are keyword-only, by name."""

    name: str
    function: Callable[..., object]
    arguments: Mapping[str, "TypeAdapter[object]"]
    required: frozenset[str]
    result: "TypeAdapter[object]"

    def load_arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        """Arguments from JSON values.

        Raises:
            InputError: an argument is missing, unknown or of the wrong type; names it.
        """
        if unknown := sorted(given.keys() - self.arguments.keys()):
            raise InputError(f"{self.name}: unknown argument {unknown[0]!r}; use {', '.join(self.arguments)}")
        if missing := sorted(self.required - given.keys()):
            raise InputError(f"{self.name}: argument {missing[0]!r} is missing; give it")
        loaded = {}
        for name, value in given.items():
            try:
                loaded[name] = self.arguments[name].validate_python(value)
            except ValidationError as exc:
                raise InputError(f"{self.name}: argument {name!r}: {exc.errors()[0]['msg']}") from exc
        return loaded

    def dump_arguments(self, given: Mapping[str, object]) -> dict[str, object]:
        return {name: self.arguments[name].dump_python(value, mode="json") for name, value in given.items()}

    def call(self, desk: Desk, actor: Actor, given: Mapping[str, object]) -> object:
        """Takes JSON values and returns the result as JSON values."""
        result = self.function(desk, actor, **self.load_arguments(given))
        return self.result.dump_python(result, mode="json")


@cache
def use_case(name: str) -> RemoteUseCase:
    """Raises NotFoundError for a name that is not in the table."""
    if name not in USE_CASES:
        raise NotFoundError(f"no use case {name!r}; use one of {', '.join(sorted(USE_CASES))}")
    module, attribute = USE_CASES[name].split(":")
    function: Callable[..., object] = getattr(importlib.import_module(module), attribute)
    hints = typing.get_type_hints(function)
    keyword_only = {
        parameter.name: parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    return RemoteUseCase(
        name,
        function,
        {argument: TypeAdapter(hints[argument]) for argument in keyword_only},
        frozenset(argument for argument, it in keyword_only.items() if it.default is inspect.Parameter.empty),
        TypeAdapter(hints["return"]),
    )


def name_of(function: Callable[..., object]) -> str:
    """The name of `function` in the table; a KeyError is a bug in the caller."""
    return _names()[f"{function.__module__}:{function.__qualname__}"]


@cache
def _names() -> Mapping[str, str]:
    return {target: name for name, target in USE_CASES.items()}
