"""Plain values of the decision engine: conditions, guides, decisions with their trace, reasons of a refusal."""

from __future__ import annotations

from typing import Literal

import msgspec

from advisor.decision.fields import Field, Scalar
from advisor.memo import MemoRecord
from advisor.record import Record

Order = Literal["first_match", "none"]
Role = Literal["engine", "overlay", "quantization", "held_back", "requirement", "note", "settings"]
VerdictWord = Literal["true", "limits", "stale", "wrong", "contra", "opinion", "unverified"]
Value = Scalar | tuple[Scalar, ...]


class FieldTest(Record, frozen=True, kw_only=True, tag="test"):
    """`field op value`."""

    __test__ = False  # not a pytest class

    field: str
    op: str
    value: Value


class AllOf(Record, frozen=True, kw_only=True, tag="all"):
    """Every part holds."""

    parts: tuple[Condition, ...]


class AnyOf(Record, frozen=True, kw_only=True, tag="any"):
    """At least one part holds."""

    parts: tuple[Condition, ...]


class Not(Record, frozen=True, kw_only=True, tag="not"):
    """The part does not hold."""

    part: Condition


Condition = FieldTest | AllOf | AnyOf | Not


class GuideSource(Record, frozen=True, kw_only=True):
    """Where a guide's statement comes from."""

    title: str
    version: str | None = None
    date: str | None = None
    url: str | None = None


class LeafVerdict(Record, frozen=True, kw_only=True):
    """Our judgement of a source's leaf: which claims it rests on and what we found."""

    claims: tuple[str, ...]
    word: VerdictWord
    text: str | None = None


class TreeNode(MemoRecord, frozen=True, kw_only=True):
    """One branch or leaf. Without `condition` it always holds. A branch has `nodes`; anything else is a leaf."""

    id: str
    condition: Condition | None = None
    engines: tuple[str, ...] = ()
    nodes: tuple[TreeNode, ...] = ()
    order: Order = "first_match"  # of `nodes`
    refine: tuple[TreeNode, ...] = ()  # the first that holds replaces what it sets
    later: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    settings: dict[str, Scalar] = msgspec.field(default_factory=dict)
    hardware: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()  # quantizations not to take
    requires: tuple[str, ...] = ()  # engine features without which it does not work
    prefers: tuple[str, ...] = ()  # engine features that are an advantage
    code: str | None = None  # reason code of a held-back leaf
    says: str | None = None  # the leaf in words, when it names more (or less) than engines
    notes: tuple[str, ...] = ()
    because: str | None = None
    source: tuple[str, ...] = ()
    verdict: LeafVerdict | None = None
    line: int | None = None


class Tree(Record, frozen=True, kw_only=True):
    """One tree of a guide. With `questions` its fields are those; else they are the registry's."""

    name: str
    role: Role = "engine"
    order: Order
    title: str | None = None
    remark: str | None = None  # stated with every answer of the tree
    gaps: str | None = None  # why not every path has an answer
    questions: dict[str, Field] = msgspec.field(default_factory=dict)
    nodes: tuple[TreeNode, ...]
    line: int | None = None


class Guide(MemoRecord, frozen=True, kw_only=True):
    """A file of decision trees. `kind` source = trees of a document, as it wrote them; advice = our own."""

    name: str
    title: str
    kind: Literal["advice", "source"]
    as_of: str
    sources: dict[str, GuideSource]
    trees: tuple[Tree, ...]
    where: str
    about: str | None = None


class ConditionOutcome(Record, frozen=True, kw_only=True):
    """One test as it came out. `outcome` None = the field is unknown."""

    field: str
    op: str
    value: Value
    seen: Scalar | None
    outcome: bool | None


class TraceStep(Record, frozen=True, kw_only=True):
    """One node that was looked at. `held` None = not decidable, so the node was not taken."""

    rule: str
    held: bool | None
    condition: str | None  # as text; None = always
    conditions: tuple[ConditionOutcome, ...]
    unknown: tuple[str, ...] = ()
    because: str | None = None
    source: tuple[str, ...] = ()


class Reason(Record, frozen=True, kw_only=True):
    """Why an engine is refused, ranked last or warned about."""

    code: str
    rule: str
    text: str
    source: str | None = None


class Decision(Record, frozen=True, kw_only=True):
    """What a guide says for given facts."""

    guide: str
    tree: str
    rules: tuple[str, ...]  # ids of the leaves taken
    engines: tuple[str, ...]
    ranked: bool  # False: the engines are named as equals
    says: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    settings: dict[str, Scalar] = msgspec.field(default_factory=dict)
    hardware: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    prefers: tuple[str, ...] = ()
    held_back: dict[str, tuple[Reason, ...]] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    verdicts: tuple[LeafVerdict, ...] = ()
    unknown: tuple[str, ...] = ()  # fields that were asked for and are unknown
    trace: tuple[TraceStep, ...] = ()
