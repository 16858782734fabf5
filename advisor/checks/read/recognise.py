"""From commands and containers to launches: what starts which engine, with which arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import dropwhile, pairwise

from msgspec.structs import replace

from advisor.catalog.launch_types import EngineProgram, Recognition
from advisor.checks.knowledge import Knowledge, KnownImage
from advisor.checks.read import docker_run
from advisor.checks.read.benchmarks import as_server_words
from advisor.checks.read.launch import Env, KnownEnv, Launch, Launches, LaunchSetup, find_setup, note_place
from advisor.checks.read.shell.commands import ShellCommand, split_commands
from advisor.checks.read.unknown_words import TOO_LONG
from advisor.errors import BadFile, Unread
from advisor.record import Names, Value
from advisor.yaml_places import Strings, Text, TextList, Texts, Words, first_line, line_of, make_text

MAX_NESTED = 6  # shells inside shells inside containers
MOST_SCANNED = 60  # words of a command among which another one may begin
_RELEASE = re.compile(r"v?\d{1,4}(\.\d{1,5}){1,3}")
_INSTALL = re.compile(r"^[ \t]*#[^\n]{0,80}\bpip3? install\b([^\n]{0,200})", re.M)
_PIN = re.compile(r"^([A-Za-z0-9_.-]+?)(?:\[[^\]]*\])?==v?(\d[\w.]*)$")
_FLAG = re.compile(r"--?[A-Za-z]")
_FLAG_OR_END = re.compile(r"--|-[a-z]+")  # of a shell, behind -c and before the text
_EXEC_SCRIPT = re.compile(r"\bexec\s+(?:\S*sh\s+(?!-)(\S+)|(\S+\.sh)\b)")  # ends as a script that nobody sees here
_NAMED_PROGRAM = re.compile(
    r"\$\{?(\w+?)(?:_(?:BIN|BINARY|EXE|EXEC|PATH|CMD|COMMAND|PROGRAM))?\}?"
)  # $LLAMA_SERVER_BIN
_LOOKED_UP = re.compile(r"\$\((?:command -v|which|type -P) ([^\s()]+)[^()]*\)")
REQUIREMENTS = "requirements.txt"  # the file next to a script, and what then states a version
_FEEDS = frozenset(["bash", "sh", "zsh", "ssh", "srun", "sbatch", "cat", "tee", "sudo"])


class LaunchFinder:
    """Finds launches in commands. Carries the pins (`pip install vllm==0.10`) seen so far in one script."""

    def __init__(
        self,
        knowledge: Knowledge,
        read_script: Callable[[str], str | None] = lambda path: None,
        problems: list[BadFile] | None = None,
    ) -> None:
        """`read_script` gives what a script holds that lies next to the file, by its path; None for any other.
        `problems` gathers what could not be read to its end; without it that is raised."""
        self.know = knowledge
        self.read_script = read_script
        self.pins: dict[str, str] = {}
        # versions that a file of requirements next to the script pins, or a comment in it that says what to install
        self.required: dict[str, str] = {}
        self.problems = problems
        self.opened: list[str] = []  # texts of scripts next to the file that are being read

    def _give_up(self, fault: Unread) -> None:
        if self.problems is None:
            raise fault
        self.problems.append(fault)

    def _split(self, source: str, line: int, env: Strings | None, positional: Texts | None) -> Sequence[ShellCommand]:
        """The commands of a text; those before the place where reading ends, which is noted."""
        if TOO_LONG in getattr(source, "unknown", ()):
            self._give_up(Unread("a text is too long", line))
        try:
            return split_commands(source, line, 0, env, positional)
        except Unread as e:
            self._give_up(e)
            return e.found

    def script(
        self,
        source: str,
        line: int = 1,
        env: Strings | None = None,
        depth: int = 0,
        positional: Texts | None = None,
        sure: bool = True,
    ) -> Launches:
        """Every launch in a shell text; one that two branches make alike counts once. `sure`: that it is one."""
        if depth > MAX_NESTED:
            self._give_up(Unread("shells stand in shells there, too deep", line))
            return []
        told = self._find_pins(" ".join(_INSTALL.findall(source)).split())
        self.required = {**told, **self.required}
        unique: dict[tuple[str, str | None, Names], Launch] = {}
        given = {k: v if isinstance(v, Text) else make_text(v) for k, v in (env or {}).items()}
        found: Launches = []
        before: tuple[Text, ...] = ()
        for step in self._split(source, line, env, positional):
            if sure and self.know.may_start_engine(step.unread):
                self._give_up(Unread("what stands there is not shell text", step.line))
            if not step.words:
                continue
            around = {**given, **step.exported, **step.env}
            if sure and _FLAG.match(step.words[0]):  # no program: what stands above it does not end in a backslash
                found = found or self.command([*before, *step.words], around, step.line, depth)
                unique |= {_identify(x): note_place(x, "cut off", step.line) for x in found}
            before = step.words
            for name, engine in self.know.version_variables.items():
                if (stated := around.get(name)) is not None and _RELEASE.fullmatch(stated):
                    self.pins[engine] = stated.removeprefix("v")
            found = self.command(list(step.words), around, step.line, depth)
            self._note_pins(step.words)
            if not found and step.heredoc is not None and _base(step.words[0]) in _FEEDS:
                run = not {"cat", "tee"} & {*map(_base, step.words)}  # what these write may be anything
                found = self.script(step.heredoc, line_of(step.heredoc), around, depth + 1, sure=run)
            for launch in found:
                unique.setdefault(_identify(launch), launch)
        return with_clients(list(unique.values()), self.know)

    def _note_pins(self, words: Words) -> None:
        self.pins |= self._find_pins(words)
        for option, name in pairwise(words):
            if option in ("-r", "--requirement"):
                self.pins |= self._find_pins((self.read_script(name) or "").split())

    def _find_pins(self, words: Words) -> dict[str, str]:
        """Versions by engine."""
        pins = [(m[1].lower().replace("_", "-"), m[2]) for w in words if (m := _PIN.match(w))]
        return {self.know.packages[name]: version for name, version in pins if name in self.know.packages}

    def require(self, requirements: str) -> None:
        """Takes the versions that a file of requirements pins for what is started without a container."""
        self.required = self._find_pins(re.sub(r"#.*", "", requirements).split())

    def command(self, words: TextList, env: KnownEnv, line: int, depth: int = 0) -> Launches:
        """The launches that one command makes (none, one, or several inside `bash -c`)."""
        if depth > MAX_NESTED:
            self._give_up(Unread("commands stand in commands there, too deep", line))
        if depth > MAX_NESTED or not words:
            return []
        wrappers = self.know.recognition.wrappers
        own = dict(env)
        while words:
            base = _base(words[0])
            if base == "command" and words[1:2] in (["-v"], ["-V"]):  # only asks where a program lies
                return []
            if base in wrappers["plain"] or words[0] in wrappers["plain"]:
                inside = self._script_next_to_file(words, own, depth) if base.endswith(".sh") else []
                if inside:
                    return inside
                words = words[1:]
                while words and words[0].startswith("-"):
                    words = words[1:]
            elif base == "env":
                words = words[1:]
                while words and words[0].startswith("-"):
                    words = words[2:] if words[0] in ("-u", "--unset", "-C") else words[1:]
            elif _assign(words[0], own):
                words = words[1:]
            else:
                break
        if not words:
            return []
        found = self._start(words, own, line, depth)
        if found is not None:
            return found
        if base == "eval" and len(words) > 1:
            unknown = tuple(u for w in words[1:] for u in w.unknown if u == TOO_LONG)
            return self.script(make_text(" ".join(words[1:]), unknown=unknown), line, own, depth + 1)
        if base in wrappers["scan"]:
            return self._scan(words, own, line, depth)
        return self._script_next_to_file(words, own, depth)

    def _start(self, words: TextList, env: Env, line: int, depth: int) -> Launches | None:
        """The launches of words that begin with an engine, a shell or a container; None for any others."""
        wrappers, base = self.know.recognition.wrappers, _base(words[0])
        made = self._started(words, env, line)
        if made is not None:
            return [made]
        if base in wrappers["shells"]:
            return self._shell(words, env, depth)
        return self._container(words, env, line, depth) if base in wrappers["containers"] else None

    def _shell(self, words: TextList, env: Env, depth: int) -> Launches:
        for i, word in enumerate(words[1:], 1):
            rest = words[i + 1 :]
            if rest and re.fullmatch(r"-[a-z]*c", word):
                body, *after = list(dropwhile(_FLAG_OR_END.fullmatch, rest)) or rest
                return self.script(body, first_line(body), env, depth + 1, after[1:])
            if not word.startswith("-") and words[i - 1] != "-o":
                if word.endswith("/env"):
                    return self.command(words[i:], env, line_of(word), depth + 1)
                return self._script_next_to_file(words[i:], env, depth)
        return []

    def _script_next_to_file(self, words: TextList, env: KnownEnv, depth: int) -> Launches:
        """The launches of a script that lies next to the file. They stand where the script is started."""
        text = None if words[0].unknown else self.read_script(words[0])
        if text is None or text in self.opened:
            return []
        at = words[0]
        self.opened.append(text)
        found = self.script(text, 1, env, depth + 1, words[1:])
        self.opened.pop()
        return [
            replace(
                s,
                argv=tuple(make_text(w, at.line, at.column, w.unknown) for w in s.argv),
                env={k: v if k in env else make_text(v, at.line, at.column, v.unknown) for k, v in s.env.items()},
                line=line_of(at),
            )
            for s in found
        ]

    def _scan(self, words: TextList, env: Env, line: int, depth: int) -> Launches:
        self._note_pins(words)
        for i in range(1, min(len(words), MOST_SCANNED)):
            if words[i] in self.know.recognition.movers:
                return []
            found = None if _assign(words[i], env) else self._start(words[i:], env, line, depth)
            if found is not None:
                return found
        if self.know.may_start_engine(" ".join(words[MOST_SCANNED:])):
            self._give_up(Unread(f"a command has more than {MOST_SCANNED} words", line))
        return []

    def _started(self, words: TextList, env: KnownEnv, line: int) -> Launch | None:
        """The launch that these words are, if the first of them starts an engine."""
        known = self.know
        base = re.sub(r"\.(exe|sh|llamafile)$|(?<=server)-(cpu|cuda|vulkan|rocm|hip|sycl)$", "", _base(words[0]))
        named = _NAMED_PROGRAM.fullmatch(base)
        entry, used = known.programs.get(named[1].lower().replace("_", "-") if named else base), 1
        if entry is None and re.fullmatch(r"(?:python|pypy)[\d.]*t?|\$\{?PYTHON\w*\}?", base):
            i = 1
            while i < len(words) and words[i].startswith("-") and not words[i].startswith("-m"):
                i += 2 if words[i] in ("-X", "-W") else 1
            if i + 1 < len(words) and words[i] == "-m":
                entry, used = known.modules.get(words[i + 1]), i + 2
            elif i < len(words) and not words[i].startswith("-"):
                entry, used = known.programs.get(_base(words[i])), i + 1
        if entry is None or entry.how.build:
            return None
        after = _count_start_words(entry.how, words[used:])
        if after is None or words[used + after :] in (["--help"], ["-h"], ["--version"]):
            return None
        used += after
        if len(words[used:]) > 2 and not any(w.startswith("-") or w.unknown for w in words[used:]):
            return None  # a sentence
        engine, measures = known.engine_by_flags(entry.engine, words[used:]), entry.how.benchmark
        pinned = self.pins.get(engine)
        origin = "a pin in the file" if pinned else REQUIREMENTS if engine in self.required else None
        return Launch(
            engine=engine, program=" ".join(words[:used]),
            argv=tuple(words[used:]) if measures is None else as_server_words(words[used:], measures), env=dict(env),
            version=pinned or self.required.get(engine), version_from=origin, line=line_of(words[0]) or line
        )  # fmt: skip

    def _container(self, words: TextList, env: Env, line: int, depth: int) -> Launches:
        run = docker_run.parse_docker_run(words)
        if run is None:
            inner = docker_run.find_exec_command(words)
            return self.command(inner, env, line, depth + 1) if inner else []
        run = self._without_open_options(run, words)
        inside = run.env | {name: env[name] for name in run.passed if name in env}
        found = self.container(run.image, run.entrypoint, run.args, inside, run.setup, depth + 1)
        return [replace(s, line=line_of(words[0]) or line, name=s.name or run.name) for s in found]

    def _without_open_options(self, run: docker_run.ContainerRun, words: TextList) -> docker_run.ContainerRun:
        """The run where a variable that nothing sets (`$DOCKER_OPTS`) stands before the image."""
        image = run.image
        if image is None or not image.unknown or find_image_by_variable(image, self.know) is not None:
            return run
        again = docker_run.parse_docker_run([w for w in words if w is not image])
        if again is None or again.image is None or parse_image(again.image, self.know).entry is None:
            return run
        granted = True if again.setup.gpu_granted else None
        return replace(again, setup=replace(again.setup, gpu_granted=granted))

    def container(
        self,
        reference: Text | None,
        entrypoint: Texts | None,
        args: Texts,
        env: KnownEnv,
        setup: LaunchSetup,
        depth: int = 0,
    ) -> Launches:
        """The launches of a container: its image, what replaces the entry point, the arguments."""
        image = parse_image(reference, self.know) if reference else None
        entry = image.entry if image else None
        if entry is None and reference is not None:
            entry = find_image_by_variable(reference, self.know)
        words = [*(entrypoint or []), *args]
        found = self.command(words, env, line_of(words[0]), depth + 1) if words else []
        if not found and len(words) == 1 and " " in words[0]:
            found = self.script(words[0], first_line(words[0]), env, depth + 1)
        one_string = bool(found) and entrypoint is not None and len(words) == len(entrypoint) == 1 and " " in words[0]
        kept = entry is not None and (entry.entry == "serve" or (image and "server" in (image.tag or "")))
        doubled = bool(found) and not entrypoint and bool(kept)
        if not found and image is not None and entry is not None:
            if not entrypoint and args and self.know.starts_by_itself(entry, args[0]):
                doubled, args = True, args[1:]
            found = self._by_image(image, entry, entrypoint, args, env)
        version = image_version(image) if image else None
        out = []
        for launch in found:
            around = find_setup(launch, setup)
            same = entry is not None and entry.engine == launch.engine
            own = None if launch.version_from == REQUIREMENTS else launch.version  # an image holds what it holds
            pinned = own or (version if same else None) or find_stated_version(reference, launch.engine)
            origin = launch.version_from if own else "the image tag" if pinned else None
            places = {**around.places, "command": line_of(words[0]) or 1} if one_string else around.places
            if doubled and launch.engine == (entry.engine if entry else ""):
                places = {**places, "doubled": 1}
            if words and _base(words[0]) not in self.know.recognition.wrappers["shells"]:
                places = {**places, "direct": line_of(words[0]) or 1}
            around = replace(around, container=True, image=str(reference) if reference else None, places=places)
            out.append(replace(launch, version=pinned, version_from=origin, setup=around))
        return out

    def _name_program(self, base: str, words: Texts) -> str | None:
        """What the first word of a container starts, by its name; None where that is no server."""
        known = self.know.recognition
        if base not in known.wrappers["shells"] or is_opaque_script(words):
            return None if base in known.others else base
        handed_on = _EXEC_SCRIPT.search(words[-1])
        return _base(handed_on[1] or handed_on[2]) if handed_on is not None else None

    def _by_image(
        self,
        image: ImageReference,
        entry: KnownImage,
        entrypoint: Texts | None,
        args: Texts,
        env: KnownEnv,
    ) -> Launches:
        """A launch by what the image does with its arguments."""
        first = next(iter(entrypoint or args), None)
        words = [*(entrypoint or ()), *args]
        base = self._name_program(_base(first) if first else "", words)
        if base is None or (base.startswith("python") and "-c" in words and entry.engine not in " ".join(words[1:])):
            return []
        made = Launch(engine=entry.engine, argv=tuple(args), env=dict(env), line=line_of(first))
        unclear = replace(made, argv=(), unresolved=(f"what `{base}` starts",))
        if entry.entry == "triton":
            return []
        if entry.entry == "llama":
            tag = image.tag or ""
            if "full" in tag and args and args[0] in ("--server", "-s"):
                return [replace(made, argv=tuple(args[1:]))]
            if "light" in tag or "full" in tag:
                return []
        known_engine = self.know.rules.engines().get(entry.engine)
        own = known_engine.recognition if known_engine is not None else Recognition()
        if own.image_is_program and not entrypoint:
            starts = {w for p in own.programs.values() for w in p.after} - self.know.client_words(entry.engine)
            body = tuple(args[1:]) if args and args[0] in starts else tuple(args)
            return [replace(made, program=None, argv=body)]
        if entrypoint:
            if base.startswith("-"):  # the words of `command:` are arguments all the same
                return [replace(made, argv=(*entrypoint, *args))]
            # another command of the engine's program starts nothing: what serves was found before
            return [] if base in self.know.programs else [replace(unclear, program=" ".join(entrypoint)[:80])]
        if entry.entry == "shell":
            if args and args[0].startswith("-"):
                return [note_place(made, "no program", line_of(first) or 1)]
            return [replace(unclear, program=str(args[0])[:80])] if args else []
        if own.profiles:
            return [replace(made, engine=find_engine_inside(args, env, own.profiles) or entry.engine)]
        if (
            entry.entry == "derived"
            and not args
            and own.image_needs_model
            and not any(re.search(r"MODEL", k) for k in env)
        ):
            return []
        if entry.entry == "derived" and args and not args[0].startswith("-") and "/" not in args[0]:
            return [unclear]
        return [made]


def _identify(launch: Launch) -> tuple[str, str | None, Names]:
    return launch.engine, launch.setup.image, launch.argv


def _base(word: str) -> str:
    """The name of a program, without its folder: also where it is looked up, or one of several that share the name."""
    names = {w.rpartition("/")[2] for w in _LOOKED_UP.sub(r"\1", word).split()}
    return names.pop() if len(names) == 1 else word.rpartition("/")[2]


def _assign(word: Text, env: Env) -> bool:
    """Whether a word sets a variable (`NAME=value`), which `env` gets then."""
    m = re.match(r"^([A-Za-z_][A-Za-z0-9_]*)=", word)
    if m:
        env[m[1]] = make_text(word[m.end() :], line_of(word), unknown=word.unknown)
    return m is not None


def _count_start_words(entry: EngineProgram, rest: Words) -> int | None:
    """How many words after the program belong to it; None when it is not started as a server."""
    if entry.told_by and len({f"--{x}" for x in entry.told_by} & {w.partition("=")[0] for w in rest}) < 2:
        return None
    if not entry.after:
        return 0
    for phrase in entry.after:
        parts = phrase.split()
        if list(rest[: len(parts)]) == parts:
            return len(parts) - (1 if parts[0] in entry.clients else 0)
    return None


def find_engine_inside(args: Texts, env: KnownEnv, profiles: Strings) -> str | None:
    """The engine inside an image that holds several, where a profile names it."""
    words = " ".join([*args, env.get("NIM_MODEL_PROFILE", "")])
    found = (e for word, e in profiles.items() if re.search(rf"(^|[\s=]){word}\b|{word}[-_]", words))
    return next(found, None)


def find_image_by_variable(reference: Text, knowledge: Knowledge) -> KnownImage | None:
    """An image that a variable names (`${VLLM_IMAGE}:${VLLM_VERSION}`): the variable's name says whose it is."""
    m = re.match(r"\$\{?([A-Za-z0-9_]+)", reference)
    if m is None or not re.search(r"IMAGE", m[1], re.I) or re.search(r"ROUTER|PROXY|UI_|CLIENT|BOOTSTRAP", m[1], re.I):
        return None
    for word, engine in knowledge.image_words.items():
        if re.search(rf"(^|_){word}(_|$)", m[1], re.I):
            return KnownImage(engine, "derived")
    return None


def is_opaque_script(words: Texts) -> bool:
    """Whether a shell is handed a script file, whose content nobody sees here."""
    return len(words) > 1 and not any(re.fullmatch(r"-[a-z]*c", w) for w in words[1:])


class ImageReference(Value, frozen=True):
    """An image reference taken apart."""

    name: str  # with registry, without tag and digest
    tag: str | None
    digest: str | None
    entry: KnownImage | None


# what a word of an image's name or tag begins with -> the vendor that it is for, the first that holds
_VENDORS = {
    "rocm": "amd", "gaudi": "habana", "hpu": "habana", "habana": "habana", "xpu": "intel", "intel": "intel",
    "sycl": "intel", "tpu": "google", "neuron": "aws", "cpu": "none", "vulkan": "any", "npu": "other", "musa": "other",
    "ascend": "other", "cann": "other",
}  # fmt: skip


def find_image_vendor(image: ImageReference) -> str | None:
    """Whose accelerators an image is for by the words of its name and tag; None where they do not say it."""
    words = re.split(r"[^a-z0-9]+", f"{image.name}:{image.tag or ''}".lower())
    return next((vendor for start, vendor in _VENDORS.items() if any(w.startswith(start) for w in words)), None)


def parse_image(reference: str, knowledge: Knowledge) -> ImageReference:
    """`nvcr.io/x/y:tag@sha256:...` taken apart, with what is known of it."""
    rest, _, digest = reference.strip().partition("@")
    m = re.match(r"^((?:\$\{[^}]*\}|[^$])*?/)?((?:\$\{[^}]*\}|[^:$/])+)(?::(.+))?$", rest)
    name, tag = ((m[1] or "") + m[2], m[3] or "") if m else (rest, "")
    return ImageReference(name, tag or None, digest or None, knowledge.image(name))


def is_for_processors(image: ImageReference) -> bool:
    """Whether an image has no support for any accelerator."""
    if image.entry is not None and image.entry.official and image.entry.entry == "llama":
        return re.fullmatch(r"(server|full|light)(-b\d+)?", image.tag or "") is not None
    return re.search(r"(^|[-_/])cpu([-_]|$)", f"{image.name}-{image.tag}") is not None


def image_version(image: ImageReference) -> str | None:
    """The engine's version where the tag states it."""
    if image.tag is None or image.entry is None or not image.entry.official:
        return None
    if image.entry.tag == "build":
        m = re.search(r"(?:^|-)b(\d{3,6})$", image.tag)
        return f"b{m[1]}" if m else None
    m = re.match(r"v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:rc|post|a|b)\d+)?)", image.tag)
    return m[1] if m else None


def find_stated_version(reference: str | None, engine: str) -> str | None:
    """The version behind the engine's name in somebody's image (`cuda12.8-vllm0.13.0`); None where none is there."""
    m = re.search(rf"(?<![a-z]){re.escape(engine)}[-_:]?v?(\d+\.\d+\.\d+)", reference or "", re.I)
    return m[1] if m else None


def with_clients(found: Launches, knowledge: Knowledge) -> Launches:
    """A server (`ollama serve`) and the clients next to it (`ollama run`, `pull`): one server and the models it is to
    load."""
    clients = [s for s in found if s.argv[:1] and s.argv[0] in knowledge.client_words(s.engine)]
    if not clients:
        return found
    engine = clients[0].engine
    servers = [s for s in found if s.engine == engine and s not in clients]
    models = dict.fromkeys(w for s in clients for w in s.argv[1:2] if not w.startswith("-"))
    loaded = [replace((servers or clients)[0], argv=(make_text("run"), word)) for word in models]
    return [s for s in found if s.engine != engine] + (loaded or servers)
