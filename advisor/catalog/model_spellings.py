"""Names of models as people and deployment files write them: hub ids with suffixes, addresses, tags, families, slips.

A name is never replaced by a near one without saying so. What may be taken off is the quantization that publishers
append by convention (`-FP8`, `-AWQ`, `-GGUF`): the rest must be a name of the catalogue, and the answer says what was
assumed. One wrong, missing or swapped letter in a word of five or more is forgiven where only one model is meant;
digits, sizes and versions never.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from advisor.catalog.compiled_rules import ModelRow
from advisor.catalog.documents import decode_document
from advisor.catalog.store import Catalog
from advisor.meanings import ModelId, Pattern, QuantizationName
from advisor.memo import memoize_by_identity
from advisor.near import simplify_name
from advisor.patterns import pattern_when_used
from advisor.record import Record, Value

SHORTEST_CORRECTED = 5  # letters and digits of a word that may have a slip in it
MOST_LEADING = 4  # words before the model's own name in that of a tuned copy, and one
SIZE_SLACK = 0.06  # of the parameters that a name states
TAG_SLACK = 1.5  # times that a tag may be off, which counts tables of n-grams or not
ACTIVE_SLACK = 0.3  # of those that a token uses
SHORTEST_ASKED = 3  # letters and digits of a name that words are looked up by
_GGUF = pattern_when_used(r"[-_.@](?P<q>(?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|TQ\d_\d))$", re.I)

_IS_SIZE = pattern_when_used(r"[a-z]?\d+(?:\.\d+)?[bmt]")
_SHORTHAND = pattern_when_used(
    r"[\s:@]+(?P<q>q[2-8]|(?:[2-8]|16)[- ]?bit|fp8|awq|gptq|nvfp4|mxfp4|int[48]|bf16|fp16)$", re.I
)


class NameSuffix(Record, frozen=True, kw_only=True):
    """What publishers append to the name of a copy."""

    pattern: Pattern
    format: QuantizationName | None = None
    gguf: bool = False  # a repository of GGUF files, of any type


class DerivedNames(Record, frozen=True, kw_only=True):
    """Names that begin with that of the model they are tuned from."""

    size: Pattern  # what of the model's name has to be there
    other: Pattern  # what has no place in the rest: it means other layers


class TunedFamily(Record, frozen=True, kw_only=True):
    """Tuned copies of one model whose names do not say which."""

    names: tuple[str, ...]  # how the name begins
    size: str | None = None  # None: the name alone says it
    model: ModelId


class NameElsewhere(Record, frozen=True, kw_only=True):
    """Names of models that no engine here serves."""

    pattern: Pattern
    code: str
    says: str


class ModelNamesFile(Record, frozen=True, kw_only=True):
    """rules/model-names.yaml."""

    source: str
    as_of: str
    suffixes: tuple[NameSuffix, ...]
    publishers: tuple[str, ...] = ()
    hub_hosts: tuple[str, ...] = ()
    ollama_hosts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    derived: DerivedNames
    short_forms: tuple[tuple[Pattern, str], ...] = ()
    idle_words: tuple[str, ...] = ()
    unlike: Pattern = ""
    usual: tuple[str, ...] = ()
    tuned: tuple[TunedFamily, ...] = ()
    elsewhere: tuple[NameElsewhere, ...] = ()


class NamedModel(Value, frozen=True):
    """What a name stands for in the catalogue."""

    name: str  # name to resolve
    quantization: str | None = None
    assumed: str | None = None  # what was taken for granted
    gguf: bool = False  # the name is one of a repository of GGUF files


@memoize_by_identity
def strip_address(rules: Catalog, name: str) -> str:
    """The name in an address that was copied: `https://huggingface.co/org/name/tree/main` is `org/name`."""
    conventions = _conventions(rules)
    name = re.sub(r"[\u2010-\u2015]", "-", re.sub(r"^(?:huggingface|hf)://", "https://huggingface.co/", name.strip()))
    bare = re.sub(r"^https?://", "", name)
    for host in conventions.ollama_hosts:
        if bare.lower().startswith(f"{host}/"):
            return bare[len(host) + 1 :].split("/tags")[0].strip("/")
    for host in conventions.hub_hosts:
        if bare.lower().startswith(f"{host}/"):
            parts = bare[len(host) + 1 :].split("?")[0].strip("/").split("/")
            file = parts[-1] if len(parts) > 2 and parts[-1].lower().endswith(".gguf") else None
            kind = _GGUF.search(re.sub(r"(?i)\.gguf$", "", file)) if file else None
            return "/".join(parts[:2]) + (f":{kind['q']}" if kind else "")
    folder = re.fullmatch(r"(?:models--)?([\w.-]+?)--([\w.-]+)", name.strip())  # as caches call a repository
    bare = f"{folder[1]}/{folder[2]}" if folder else name.strip()
    return re.sub(r"(?<=[a-z0-9])\+(?=$|[\s-])", "-plus", bare, flags=re.I)  # Command R+


def is_address(name: str, rules: Catalog) -> bool:
    """Whether the name was copied with the address it stands at."""
    return strip_address(rules, name) != name.strip() and "/" in name


def find_named_model(name: str, rules: Catalog) -> NamedModel | None:
    """The catalogue's name and the weight format that `name` says; None where the catalogue has no such name."""
    bare, quant = name.strip(), None
    if "/" not in bare:
        for pattern, put in _conventions(rules).short_forms:
            bare = re.sub(pattern, put, bare, flags=re.I)
    bare = bare.removesuffix(":latest")
    if "/" not in bare:
        m = _SHORTHAND.search(bare)
        if m:
            found = find_named_model(bare[: m.start()], rules)
            assumed = f"{name} is taken as {found.name} in {m['q']}" if found else None
            return replace(found, quantization=found.quantization or m["q"], assumed=assumed) if found else None
        bare = re.sub(r"\s+(?=[A-Za-z0-9_]+$)", "-", bare) if _GGUF.search(re.sub(r"\s+", "-", bare)) else bare
    m = re.match(r"^(.*):([A-Za-z0-9_.-]+)$", bare)
    if m and "/" in m[1] and not bare.startswith("hf.co"):
        if is_in_catalogue(bare, rules):
            return NamedModel(bare)
        bare, quant = m[1], m[2]
    bare = re.sub(r"^(hf\.co|huggingface\.co)/", "", bare)
    m = re.match(r"^(.*/.*):([A-Za-z0-9_.-]+)$", bare)
    if m:
        bare, quant = m[1], m[2]
    if is_in_catalogue(bare, rules):
        return NamedModel(bare, quant)
    whole = _names_without_format(rules).get(simplify_name(bare))
    if whole is not None:
        return NamedModel(whole, quant, f"{name} is taken as {whole}, by its name")
    listed = rules.find_copy(bare) if "/" in bare else None
    if listed is not None:
        return NamedModel(listed[0], quant or listed[1], gguf=listed[1] is None)
    if bare.count(":") == 2 and "/" not in bare:  # `name:size:format`
        bare, quant = bare.replace(":", "-", 1).split(":")
    if quant is None and ":" in bare and (tag := _ollama_tag(bare, rules)) is not None:
        return tag
    short = bare.rpartition("/")[2]
    short = re.sub(r"-\d{5}-of-\d{5}$", "", re.sub(r"\.gguf$", "", short, flags=re.I), flags=re.I)
    found = _without_suffix(short, quant, rules)
    if found is None:  # somebody's copy, or a file
        found = _find_base(bare.rpartition("/")[0], short, quant, rules)
    if found is None:
        return None
    assumed = (
        f"{name} is taken as {found.name}"
        + (f" in {found.quantization}" if found.quantization else "")
        + ", by its name"
    )
    return replace(found, assumed=assumed)


def find_file_format(file: str) -> str | None:
    """The weight format in the name of a GGUF file; None where it says none."""
    m = _GGUF.search(file[: -len(".gguf")]) if file.lower().endswith(".gguf") else None
    return m["q"].upper() if m else None


def find_elsewhere(name: str, rules: Catalog) -> NameElsewhere | None:
    """Why no engine here serves a model of this name; None where nothing is known of it."""
    short = name.strip().rpartition("/")[2]
    return next((x for x in _conventions(rules).elsewhere if re.fullmatch(x.pattern, short, re.I)), None)


def is_in_catalogue(name: str, rules: Catalog) -> bool:
    """Whether the catalogue has a model of exactly this name (case and punctuation aside)."""
    return simplify_name(name) in _plain_names(rules)


def find_by_words(name: str, rules: Catalog) -> tuple[ModelRow, ...]:
    """All models whose names have every word of `name`: a family (`gemma3`), a size (`30b`), both. Stubs are left out.

    Words are cut between letters and versions (`llama3` is llama, 3), sizes are one word (`30b`). Empty for hub names
    (`org/name`): somebody's model is not the one that its name resembles.
    """
    if "/" in name:
        return ()
    low, words = simplify_name(name), _split_words(name)
    if len(low) < SHORTEST_ASKED and not re.fullmatch(r"\d+[bm]", low):
        return ()
    if any(c.isdigit() for c in low):  # a version says which: `llama3` is no Llama 3.3 Nemotron
        same = tuple(row for row, _ in _words_of_models(rules) if low in _family_names(row))
        if same:
            return same
    idle = frozenset(_conventions(rules).idle_words) | _makers(rules)
    inside = re.search(r"\(([^()]+)\)", name)  # `Somebody's model (Gemma 4 E2B finetuned)`
    for asked in (words, words - idle, _split_words(inside[1]) - idle if inside else frozenset()):
        found = tuple(row for row, known in _words_of_models(rules) if asked and asked <= known)
        if found:
            return found
    whole = re.search(r"(?<![\w.])(\d+(?:\.\d+)?)([bt])\b(?:-a\d+(?:\.\d+)?b)?", name, re.I)  # next to a whole name
    if whole is None or not (asked := _split_words(name.replace(whole[0], " ")) - idle):
        return ()
    total = float(whole[1]) * (1e12 if whole[2].lower() == "t" else 1e9)
    rows = (row for row, known in _words_of_models(rules) if asked <= known and not any(map(_IS_SIZE.fullmatch, known)))
    return tuple(row for row in rows if abs(row.params_total - total) <= SIZE_SLACK * total)


def find_alike(name: str, rules: Catalog) -> tuple[ModelRow, ...]:
    """Models that a name without its format and its publisher may mean by its words, for a choice: none of them is
    taken."""
    plain = list(_strip_suffixes(name.rpartition("/")[2].replace(" ", "-"), None, rules))[-1][0]
    return find_by_words(plain, rules) if any(c.isdigit() for c in plain) else ()


def list_tuned_sizes(name: str, rules: Catalog) -> tuple[str, ...]:
    """The names with a size that are known of a tuned family, where a name says the family and no size of it."""
    plain = re.sub(r"[-_\s]+", "-", name.strip().rpartition("/")[2].lower())
    families = (f for f in _conventions(rules).tuned if f.size is not None)
    return tuple(f"{n} {f.size}" for f in families for n in f.names if f"{plain}-".startswith(f"{n}-"))


def list_of_same_size(name: str, rules: Catalog) -> list[ModelRow]:
    """The models of as many parameters as a name states, all or few of them active: first the newest of the usual
    makers. None where the name states none, or says that it has other parts."""
    short = name.strip().rpartition("/")[2]
    size = re.search(r"(?i)(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?)b(?:[-\s]?a(\d+(?:\.\d+)?)b)?(?![a-z0-9])", short)
    if size is None or re.search(_conventions(rules).unlike, short, re.I) or find_elsewhere(name, rules) is not None:
        return []
    total = float(size[1]) * 1e9
    active = float(size[2]) * 1e9 if size[2] else total
    usual = _conventions(rules).usual
    alike = [
        (row.id.startswith(usual), row.release_date or "", row)
        for row in rules.model_index()
        if not row.stub
        and row.kind == "chat"
        and abs(row.params_total - total) <= SIZE_SLACK * total
        and abs((row.params_active or row.params_total) - active) <= ACTIVE_SLACK * active
    ]
    return [row for _, _, row in sorted(alike, key=lambda found: found[:2], reverse=True)]


@memoize_by_identity
def _makers(rules: Catalog) -> frozenset[str]:
    """Words of publishers that no model is called by."""
    makers = frozenset(w for row in rules.model_index() for w in _split_words(row.id.rpartition("/")[0]))
    return makers - frozenset(
        w for row in rules.model_index() for w in _split_words(f"{row.id.rpartition('/')[2]} {row.family}")
    )


def _family_names(row: ModelRow) -> set[str]:
    return {simplify_name(row.family), *(simplify_name(a.partition(":")[0]) for a in row.aliases if ":" in a)}


def correct_spelling(name: str, rules: Catalog) -> str | None:
    """The name with one slip in each word mended, where each has only one mend; None where there is none to mend."""
    if "/" in name:
        return None
    known = _vocabulary(rules)
    out, changed = [], False
    for piece in re.split(r"([^A-Za-z0-9]+)", name):
        word = piece.lower()
        if not word.isalnum() or word in known or len(word) < SHORTEST_CORRECTED - 1:
            out.append(piece)
            continue
        mended = {k for k in known if len(k) >= SHORTEST_CORRECTED and _is_slip(word, k)}
        if len(mended) != 1:
            return None
        out.append(mended.pop())
        changed = True
    return "".join(out) if changed else None


def _ollama_tag(name: str, rules: Catalog) -> NamedModel | None:
    """`qwen2.5:7b-instruct-q8_0`: the tag may name size, kind and weight format."""
    base, _, tag = name.partition(":")
    m = re.match(r"^(.*?)(?:-(instruct|chat|it|text|base))?(?:-((?:i?q\d|fp16|f16|bf16)[\w]*))?$", tag, re.I)
    if not m:
        return None
    for t in (f"{base}:{m[1]}-{m[2]}" if m[2] else None, f"{base}:{m[1]}"):
        if t and is_in_catalogue(t, rules):
            return NamedModel(t, m[3].upper() if m[3] else None, f"{name} is taken as {t}, by its tag")
    found = _without_suffix(f"{base}-{tag}", None, rules) or _find_base("", f"{base}-{tag}", None, rules)
    found = found or _sized_tag(base, tag, rules)
    return found and replace(found, assumed=f"{name} is taken as {found.name}, by its tag")


def _sized_tag(base: str, tag: str, rules: Catalog) -> NamedModel | None:
    """`qwen3.8-flash-next:125b-mlx`: a model whose name has no size, and a tag of about its size and a format."""
    rest, said, gguf = list(_strip_suffixes(f"-{tag}", None, rules))[-1]
    size = re.fullmatch(r"-(\d+(?:\.\d+)?)b", rest, re.I)
    if size is None or not is_in_catalogue(base, rules) or re.search(_conventions(rules).derived.size, base, re.I):
        return None
    near = 1 / TAG_SLACK <= float(size[1]) * 1e9 / rules.find_model(base).params_total <= TAG_SLACK
    return NamedModel(base, said, gguf=gguf) if near else None


def _without_suffix(short: str, quant: str | None, rules: Catalog) -> NamedModel | None:
    """The model of a name without what publishers append."""
    for now, said, gguf in _strip_suffixes(short, quant, rules):
        if (known := _find_plain(now, said, rules)) is not None:
            return NamedModel(known, said, gguf=gguf)
    return None


def _find_base(publisher: str, short: str, quant: str | None, rules: Catalog) -> NamedModel | None:
    """The model whose whole name, size included, a tuned copy's begins with. Its own publisher's are no such copies."""
    short = re.sub(r"(Q[26]_K)[-_ ]+(?:small|medium|large)\b", r"\1", short.replace(" ", "-"), flags=re.I)
    now, said, gguf = list(_strip_suffixes(short, quant, rules))[-1]
    derived = _conventions(rules).derived
    own = {row.id.rpartition("/")[0].lower() for row in rules.model_index()}
    if publisher and publisher.lower() in own:
        return None
    starts = (0, *(m.end() for m in re.finditer(r"[-_\s]|\.(?=[a-z])", now, re.I)))
    for start in starts[:MOST_LEADING]:  # `Huihui-Qwen3-8B-abliterated`: the tuner before the model
        if re.search(derived.other, now[:start], re.I):
            break
        for cut in (len(now), *reversed([m.start() for m in re.finditer(r"[-_.\s]", now)])):
            base, rest = now[start:cut], now[cut:]
            told = re.search(derived.size, base, re.I) or re.search(r"\d(?=.*[-_\s])", base)
            if re.search(derived.other, re.sub(r"(?i)distill(?:ed)?", "", rest), re.I) or not told:  # distilled into it
                break
            named = re.search(r"[a-z]{2}", base[: told.start()], re.I)  # a size alone names nothing
            if named and (known := _find_plain(base, None, rules)) is not None:
                return NamedModel(known, said, gguf=gguf)
    plain = re.sub(r"[-_\s]+", "-", now.lower())
    size = re.search(derived.size, plain)
    for family in _conventions(rules).tuned:
        sized = family.size is None or (size is not None and size[0] == family.size)
        if sized and f"{plain}-".startswith(tuple(f"{n}-" for n in family.names)):
            return NamedModel(family.model, said, gguf=gguf)
    spread = _find_spread(plain, rules)
    return NamedModel(spread, said, gguf=gguf) if spread is not None else None


def _find_spread(plain: str, rules: Catalog) -> str | None:
    """The model whose words, a size among them, all stand in a name in their order with a tuner's between
    (`translate-gemma-4-sub-e4b`): of several that with most; None where the others mean other layers."""
    words, conventions, best = _list_words(plain), _conventions(rules), (list[str](), "")
    for row in rules.model_index():
        short, left = row.id.rpartition("/")[2].lower(), iter(words)
        own = [w for w in _list_words(short) if w not in conventions.kinds]
        longer = len(own) > max(2, len(best[0])) and re.search(conventions.derived.size, short)
        if longer and all(word in left for word in own):
            best = own, row.id
    rest = "-".join(w for w in words if w not in best[0])
    return best[1] if best[1] and not re.search(conventions.derived.other, rest, re.I) else None


def _find_plain(name: str, quant: str | None, rules: Catalog) -> str | None:
    for c in (name, *(name[len(p) :] for p in _conventions(rules).publishers if name.lower().startswith(p))):
        if is_in_catalogue(c, rules):
            return c
        if (named := _names_by_size(rules).get(_drop_kind(c, rules))) is not None:
            return named
        # publishers that name the plain copy after its format
        if quant and is_in_catalogue(f"{c}-BF16", rules):
            return f"{c}-BF16"
    return None


def _strip_suffixes(short: str, quant: str | None, rules: Catalog) -> Iterator[tuple[str, str | None, bool]]:
    """A name with one suffix less each time, the weight format of those so far, and whether it is of GGUF files."""
    now, gguf = short, False
    yield now, quant, gguf
    for _ in range(5):
        if m := _GGUF.search(now):
            quant, now = quant or m["q"].upper(), now[: m.start()]
            yield now, quant, gguf
            continue
        for suffix in _conventions(rules).suffixes:
            if s := re.search(rf"[-_.](?:{suffix.pattern})$", now, re.I):
                bits = s.groupdict().get("bits")
                quant, now = quant or (f"{suffix.format}-{bits}bpw" if bits else suffix.format), now[: s.start()]
                gguf = gguf or suffix.gguf
                yield now, quant, gguf
                break
        else:
            return


def _conventions(rules: Catalog) -> ModelNamesFile:
    return decode_document(rules, "model-names.yaml", ModelNamesFile)


@memoize_by_identity
def _plain_names(rules: Catalog) -> frozenset[str]:
    index = rules.model_index()
    return frozenset(simplify_name(n) for row in index for n in (row.id, row.id.rpartition("/")[2], *row.aliases))


@memoize_by_identity
def _names_without_format(rules: Catalog) -> Mapping[str, str]:
    """Ids that end in a format (`-BF16`), by their name without it, with and without the publisher."""
    out: dict[str, str] = {}
    for row in rules.model_index():
        publisher, _, short = row.id.rpartition("/")
        plain, stated, _ = list(_strip_suffixes(short, None, rules))[-1]
        if stated is not None:
            out |= {simplify_name(x): row.id for x in (plain, f"{publisher}/{plain}")}
    return {name: model for name, model in out.items() if not is_in_catalogue(name, rules)}


def _drop_kind(name: str, rules: Catalog) -> str:
    """The plain name without the word that tells a tuned copy from its base: they have the same layers."""
    return simplify_name("-".join(w for w in re.split(r"[-_.\s]", name) if w.lower() not in _conventions(rules).kinds))


@memoize_by_identity
def _names_by_size(rules: Catalog) -> Mapping[str, str]:
    """Names without their kind -> the one model that has it."""
    found: dict[str, set[str]] = {}
    for row in rules.model_index():
        found.setdefault(_drop_kind(row.id.rpartition("/")[2], rules), set()).add(row.id)
    return {name: ids.pop() for name, ids in found.items() if len(ids) == 1}


@memoize_by_identity
def _words_of_models(rules: Catalog) -> tuple[tuple[ModelRow, frozenset[str]], ...]:
    return tuple(
        (row, _split_words(" ".join((row.id.rpartition("/")[2], row.family, *row.aliases))))
        for row in rules.model_index()
        if not row.stub
    )


@memoize_by_identity
def _vocabulary(rules: Catalog) -> frozenset[str]:
    """Words of all names, as they are written."""
    names = (n for row in rules.model_index() for n in (row.id.rpartition("/")[2], *row.aliases))
    return frozenset(w for n in names for w in re.split(r"[^a-z0-9]+", n.lower()) if w)


def _split_words(name: str) -> frozenset[str]:
    return frozenset(_list_words(name))


def _list_words(name: str) -> list[str]:
    pieces = r"[a-z]?\d+(?:\.\d+)?[bmt](?![a-z0-9])|e\d+b\b|\d+x\d+b|[a-z]+|\d+(?:\.\d+)*"
    found: list[str] = re.findall(pieces, name.lower())
    return found


def _is_slip(word: str, right: str) -> bool:
    """Whether `word` is `right` with one letter wrong or missing, or two neighbours swapped; digits are the same."""
    if re.sub(r"\D", "", word) != re.sub(r"\D", "", right):
        return False
    if len(word) == len(right):
        off = [i for i, (a, b) in enumerate(zip(word, right, strict=True)) if a != b]
        swapped = (
            len(off) == 2 and off[1] == off[0] + 1 and (word[off[0]], word[off[1]]) == (right[off[1]], right[off[0]])
        )
        return len(off) == 1 or swapped
    return len(word) == len(right) - 1 and any(right[:i] + right[i + 1 :] == word for i in range(len(right)))
