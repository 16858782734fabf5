"""Templates of Helm charts, filled in with the chart's own values as far as they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from checking import check_text, launches
from hypothesis import given
from hypothesis import strategies as st

from advisor.checks.read.go_template import TemplateFault, fill_template, list_definitions
from advisor.yaml_places import parse_documents

VALUES = """\
name: llm
image: {repository: vllm/vllm-openai, tag: v0.33.0}
args: [--swap-space, "4"]
env: {A: one, B: two}
on: true
off: false
count: 3
blank: ""
nothing:
none: {}
text: "a: b"
"""
HELPERS = """\
{{/* a comment */}}
{{- define "chart.name" -}}
{{- default "fallback" .Values.name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "chart.labels" -}}
app: {{ include "chart.name" . }}
tier: {{ .Values.count | quote }}
{{- end }}
{{- define "chart.release" -}}
{{ .Release.Name }}-x
{{- end -}}
"""


def fill(source: str) -> str:
    (values,) = parse_documents(VALUES, "values.yaml")
    return fill_template(source, {"Values": values, "Chart": {"Name": "c"}}, list_definitions(HELPERS)).text


@pytest.mark.parametrize(
    ("source", "wanted"),
    [  # what `helm template` makes of them, by the documentation of Go's text/template, Sprig and Helm
        ("{{ .Values.name }}", "llm"),
        ("a {{- .Values.name -}} b", "allmb"),
        ("x:\n  {{- .Values.env | toYaml | nindent 2 }}\ny: 1", "x:\n  A: one\n  B: two\ny: 1"),
        ("{{ include \"chart.name\" . }}/{{ .Chart.Name }}", "llm/c"),
        ("l: {{- include \"chart.labels\" . | nindent 2 }}", "l:\n  app: llm\n  tier: \"3\""),
        ("{{ if .Values.on }}y{{ else }}n{{ end }}{{ if .Values.off }}y{{ else }}n{{ end }}", "yn"),
        ("{{ if and .Values.on (eq .Values.name \"llm\") }}y{{ end }}", "y"),
        ("{{ if or .Values.off (gt .Values.count 5) }}y{{ else if ne .Values.count 2.0 }}z{{ end }}", "z"),
        ("{{ if not .Values.off }}y{{ end }}", "y"),
        ("{{ range .Values.args }}[{{ . }}]{{ end }}", "[--swap-space][4]"),
        ("{{ range $k, $v := .Values.env }}{{ $k }}={{ $v | upper }} {{ end }}", "A=ONE B=TWO "),
        ("{{ range $i, $v := .Values.args }}{{ if $i }},{{ end }}{{ $v | quote }}{{ end }}", '"--swap-space","4"'),
        ("{{ with .Values.image }}{{ .tag }} {{ $.Values.name }}{{ end }}", "v0.33.0 llm"),
        ("{{ $x := .Values.name }}{{ $x }}{{ $x = \"b\" }}{{ $x }}", "llmb"),
        ("{{ printf \"%s:%s\" .Values.image.repository .Values.image.tag | squote }}", "'vllm/vllm-openai:v0.33.0'"),
        ("{{ .Values.absent | default \"d\" }} {{ default 7 .Values.blank }}", "d 7"),
        ("{{ .Values.name | default \"d\" }}", "llm"),
        ("{{ ternary \"a\" \"b\" .Values.on }}{{ len .Values.args }}{{ add .Values.count 2 }}", "a25"),
        ("{{ `{{ raw }}` }}{{ \"q\\\"\" }}", '{{ raw }}q"'),
        ("{{ if hasKey .Values.env \"A\" }}y{{ end }}{{ join \"-\" .Values.args }}", "y--swap-space-4"),
        ("{{ define \"own\" }}<{{ . }}>{{ end }}{{ template \"own\" .Values.name }}", "<llm>"),
        ("{{ $n := 0 }}{{ range until 3 }}{{ $n = add $n 1 }}{{ end }}{{ $n }}", "3"),
        ("{{ $a := list \"x\" }}{{ if .Values.on }}{{ $a = append $a \"y\" }}{{ end }}{{ join \",\" $a }}", "x,y"),
        ("{{ if .Values.absent.more }}a{{ else }}b{{ end }}", "b"),
        # what is not known stays as it is written
        *((x, x) for x in ("{{ .Release.Name }} {{ .Values.absent }}", "{{ .Values.blank | quote }}",
                           "{{ include \"chart.release\" . }} {{ lookup \"v1\" \"Pod\" }}")),
        # what is left to be filled in: its branch is there, and nothing in it is known
        ("{{- with .Values.none }}r: {{ toYaml . }}{{ end }}", "r: {{ toYaml . }}"),
        ("r:\n  {{- toYaml .Values.none | nindent 2 }}", "r: {{- toYaml .Values.none | nindent 2 }}"),
        ("- a\n{{- toYaml .Values.none | nindent 2 }}", "- a\n{{- toYaml .Values.none | nindent 2 }}"),
        ("{{ if .Values.nothing }}a{{ else }}b{{ end }}", "b"),
    ],
)  # fmt: skip
def test_what_is_filled_in(source: str, wanted: str) -> None:
    assert fill(source) == wanted


@pytest.mark.parametrize(
    "source",
    [
        '{{ if .Capabilities.APIVersions.Has "x/v1" }}a{{ end }}',
        '{{ if semverCompare ">1" .Values.tag }}a{{ end }}',
        '{{ range $k, $v := .Values.env }}{{ if kindIs "bool" $v }}a{{ else }}b{{ end }}{{ end }}',
        '{{ if eq .Release.Name "x" }}a{{ end }}',
        "{{ if .Values.on }}x",
        "{{ end }}",
        "{{ ? }}",
        "{{ }}",
        "{{ range .Values.name }}{{ end }}",
        "{{ if .Values.on }}" * 60 + "{{ end }}" * 60,
    ],
)
def test_what_is_not_understood_is_left_alone(source: str) -> None:
    with pytest.raises(TemplateFault):
        fill(source)


def test_work_is_bounded() -> None:
    loop = '{{ define "a" }}{{ include "b" . }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ include "a" . }}{{ end }}'
    with pytest.raises(TemplateFault):
        fill(loop + '{{ include "a" . }}')
    with pytest.raises(TemplateFault):
        fill("{{ $a := list 1 2 3 4 5 6 7 8 9 }}" + "{{ range $a }}" * 9 + "x" * 99 + "{{ end }}" * 9)


@given(st.text('{}.-"` Valuesnamif()|\n$:=', max_size=60))
def test_any_text_is_filled_in_or_refused(source: str) -> None:
    try:
        fill("{{" + source + "}}")
    except TemplateFault:
        return


@given(st.recursive(st.text("abc:#-' \n", max_size=6), lambda v: st.lists(v, max_size=3) | st.dictionaries(
    st.text("abc", min_size=1, max_size=3), v, max_size=3), max_leaves=8))  # fmt: skip
def test_to_yaml_round_trip(value: Any) -> None:
    text = fill_template("x:\n{{ toYaml .v | indent 2 }}", {"v": value}, {}).text
    if value in ("", [], {}):
        assert "{{" in text
    else:
        assert yaml.safe_load(text)["x"] == value


TEMPLATE = """\
{{- if .Values.on }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ include "chart.name" . }}}
spec:
  template:
    metadata:
      labels:
        {{- include "chart.labels" . | nindent 8 }}
    spec:
      containers:
      - name: server
        image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
        args:
        - --model
        - Qwen/Qwen3-8B
        {{- range .Values.args }}
        - {{ . | quote }}
        {{- end }}
        {{- if .Values.off }}
        - --enable-lora
        {{- end }}
        resources:
          {{- toYaml .Values.none | nindent 10 }}
{{- end }}
"""


def chart(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\nappVersion: v9\n")
    (tmp_path / "values.yaml").write_text(VALUES)
    (tmp_path / "templates/_helpers.tpl").write_text(HELPERS)
    path = tmp_path / "templates/deployment.yaml"
    path.write_text(TEMPLATE)
    return path


def test_a_template_is_judged_with_its_values(tmp_path: Path) -> None:
    path = chart(tmp_path)
    (launch,) = launches(TEMPLATE, str(path), path.parent)
    assert (launch.engine, launch.version) == ("vllm", "0.33.0")
    assert [(str(w), w.line) for w in launch.argv] == [
        ("--model", 15), ("Qwen/Qwen3-8B", 16), ("--swap-space", 18), ("4", 18),
    ]  # fmt: skip
    found = {f.rule: f for f in check_text(TEMPLATE, str(path), path.parent).findings}
    assert found["swap-space-removed"].line == 18
    assert found["swap-space-removed"].edits == ()
    assert "chart's own values.yaml" in launch.assumed[0]


def test_without_a_chart_it_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = chart(tmp_path)
    (tmp_path / "Chart.yaml").unlink()
    assert launches(TEMPLATE, str(path), path.parent) == []  # whose image is it?
    named = TEMPLATE.replace("{{ .Values.image.repository }}", "vllm/vllm-openai")
    (launch,) = launches(named, str(path), path.parent)
    assert (launch.engine, launch.version) == ("vllm", None)


def test_branches_of_a_template_may_have_the_same_key() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: v\n"
        "    image: vllm/vllm-openai:v0.33.0\n    args: [a/b]\n    {{- if .x }}\n    tty: true\n    {{- else }}\n"
        "    tty: false\n    {{- end }}\n"
    )
    assert "key-doubled" not in {f.rule for f in check_text(text, "x.yaml").findings}


def test_templates_inside_a_script_of_a_manifest_are_no_values() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  run.sh: |\n    #!/bin/bash\n"
        '    ARGS=("vllm" "serve" "a/b" "--port" "{{ include "c.port" . }}")\n    {{- if .Values.x }}\n'
        '    ARGS+=("--max-model-len" {{ .Values.x | quote }})\n    {{- end }}\n    exec "${ARGS[@]}"\n'
    )
    assert [f.rule for f in check_text(text, "x.yaml").findings if f.severity == "error"] == []


def test_a_release_has_the_name_that_helm_template_gives_it(tmp_path: Path) -> None:
    """The helper that `helm create` writes asks for the release's name, which nobody knows before."""
    (tmp_path / ".git").mkdir()
    helper = '{{- define "n" }}{{- if contains .Chart.Name .Release.Name }}a{{- else }}b{{- end }}{{- end }}'
    for name, text in (
        ("Chart.yaml", "name: c\n"),
        ("values.yaml", "model: Qwen/Qwen3-8B\n"),
        ("templates/_h.tpl", helper),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    pod = (
        'apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ include "n" . }}\nspec:\n  containers:\n  - name: v\n'
        '    image: vllm/vllm-openai:v0.33.0\n    args: ["{{ .Values.model }}"]\n'
    )
    (launch,) = launches(pod, str(tmp_path / "templates/p.yaml"), tmp_path / "templates")
    assert launch.argv == ("Qwen/Qwen3-8B",)
