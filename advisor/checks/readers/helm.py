"""Helm values of charts that serve models: vLLM production-stack, llm-d modelservice, llm-d benchmark scenarios, and
charts whose values name a model beside an engine (`vllm: {LLM_MODEL_ID: ...}`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from advisor.checks import accelerators, shell
from advisor.checks.docker_run import size
from advisor.checks.launch import Launch, Mount, Setup
from advisor.checks.located import Text, at, line_of, mapping, sequence, string, text, truth, whole
from advisor.checks.readers.context import Context, environment
from advisor.checks.readers.crds_common import uri_model
from advisor.checks.recognise import image_of, image_version

# values of the production-stack chart -> vLLM's flags
_CONFIG = {
    "tensorParallelSize": "tensor-parallel-size",
    "pipelineParallelSize": "pipeline-parallel-size",
    "maxModelLen": "max-model-len",
    "dtype": "dtype",
    "gpuMemoryUtilization": "gpu-memory-utilization",
    "maxLoras": "max-loras",
    "maxNumSeqs": "max-num-seqs",
    "enablePrefixCaching": "enable-prefix-caching",
    "enableChunkedPrefill": "enable-chunked-prefill",
}
_KEYS = frozenset(
    (
        *_CONFIG,
        *[
            "v0",
            "v1",
            "extraArgs",
            "runner",
            "env",
            "customChatTemplate",
            "tool",
            "enableLoRA",
            "maxLoraRank",
            "numScheduler",
            "enableTool",
            "toolCallParser",
        ],
    )
)


def applies(doc: Any) -> bool:
    """Whether the values are those of a chart that is known here."""
    return isinstance(doc, dict) and (
        isinstance(at(doc, "servingEngineSpec"), dict)
        or (isinstance(at(doc, "modelArtifacts"), dict) and ("decode" in doc or "prefill" in doc))
        or isinstance(at(doc, "scenario"), list)
    )


def read_document(doc: Any, ctx: Context) -> list[Launch]:
    """The launches of known values files."""
    if isinstance(at(doc, "servingEngineSpec"), dict):
        return _production_stack(doc, ctx)
    if isinstance(at(doc, "modelArtifacts"), dict):
        return _modelservice(doc, ctx)
    return [x for s in sequence(at(doc, "scenario")) for x in _scenario(mapping(s), ctx)]


def _production_stack(doc: Any, ctx: Context) -> list[Launch]:
    engine = mapping(doc["servingEngineSpec"])
    out = []
    for m in sequence(engine.get("modelSpec")):
        if not isinstance(m, dict) or truth(m.get("enabled")) is False:
            continue
        config = mapping(m.get("vllmConfig"))
        settings = {flag: v for key, flag in _CONFIG.items() if (v := string(config.get(key))) is not None}
        unknown_keys = tuple(str(k) for k in config if str(k) not in _KEYS)
        argv = tuple(
            w for w in [*sequence(config.get("extraArgs")), *sequence(m.get("extraArgs"))] if isinstance(w, Text)
        )
        repository = string(m.get("repository"))
        image = f"{repository}:{m['tag']}" if repository and isinstance(m.get("tag"), Text) else repository
        env, _ = environment(m.get("env") or config.get("env"))
        if m.get("hf_token") is not None:
            env["HF_TOKEN"] = string(m["hf_token"]) or text("$(HF_TOKEN)", line_of(m), 0, ("HF_TOKEN",))
        labels = {str(k): str(v) for k, v in mapping(m.get("nodeSelector")).items() if isinstance(v, Text)}
        for t in sequence(m.get("nodeSelectorTerms")):
            for e in sequence(at(t, "matchExpressions")):
                values = sequence(at(e, "values"))
                if str(at(e, "operator")) == "In" and len(values) == 1:
                    labels[str(at(e, "key"))] = str(values[0])
        found = accelerators.from_labels(labels, ctx.know)
        count = whole(m.get("requestGPU"))
        shm = string(m.get("shmSize"))
        mounts = (Mount(target="/data", kind="pvc"),) if m.get("pvcStorage") else ()
        setup = Setup(
            container=True,
            cluster=True,
            image=image,
            gpu_count=count,
            gpu_granted=None if count is None else count > 0,
            gpu_resource=string(m.get("requestGPUType")),
            hardware=found[0] if found else None,
            hardware_source=found[1] if found else None,
            shm_bytes=size(shm) if shm else 20 * 2**30,
            mounts=mounts,
            disk_bytes=size(string(m.get("pvcStorage"))),
            replicas=whole(m.get("replicaCount")),
            memory_limit=size(string(m.get("limitMemory"))),
            selects_node=bool(labels),
            tolerates_gpu=bool(m.get("tolerations") or engine.get("tolerations")),
            places={
                "image": line_of(m.get("tag")) or line_of(repository),
                "resources": line_of(m.get("requestGPU")) or line_of(m),
                **{f"unknown-key:{k}": line_of(config) for k in unknown_keys},
            },
        )
        known = image_of(image, ctx.know) if image else None
        model = string(m.get("modelURL"))
        version = image_version(known) if known else None
        out.append(
            Launch(
                file=ctx.file,
                line=line_of(m),
                kind="helm",
                name=string(m.get("name")),
                engine="vllm",
                model=model,
                settings=settings,
                argv=argv,
                env=env,
                setup=setup,
                version=version,
                version_from="the image tag" if version else None,
                resource=string(m.get("name")),
            )
        )
    return out


def _modelservice(doc: Any, ctx: Context) -> list[Launch]:
    from advisor.checks.readers import kubernetes as k

    uri = string(at(doc, "modelArtifacts", "uri"))
    named = string(at(doc, "modelArtifacts", "name"))
    model = uri_model(uri)
    if model is not None and "://" in model:
        model = named or model
    label = string(at(doc, "accelerator", "type"))
    out: list[Launch] = []
    for part in ("decode", "prefill"):
        body = mapping(doc.get(part))
        if truth(body.get("create")) is False or not body:
            continue
        settings = {}
        for key, flag in (
            ("tensor", "tensor-parallel-size"),
            ("data", "data-parallel-size"),
            ("pipeline", "pipeline-parallel-size"),
        ):
            v = string(at(body, "parallelism", key))
            if v is not None:
                settings[flag] = v
        pod = k.pod_setup(body, ctx, {})
        found = k.containers(body, pod, f"{named or 'model'}/{part}", ctx, kind="helm")
        out += [msgspec.structs.replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in found]
        if not found and body.get("containers"):
            c = mapping(sequence(body["containers"])[0])
            args = tuple(w for w in sequence(c.get("args")) if isinstance(w, Text))
            setup = k.container_setup(c, body, pod, ctx, None)
            out.append(
                Launch(
                    file=ctx.file,
                    line=line_of(c),
                    kind="helm",
                    name=part,
                    engine="vllm",
                    model=model,
                    settings=settings,
                    argv=args,
                    setup=setup,
                    resource=part,
                )
            )
    del label
    return out


# variables that the benchmark sets for a command of one's own, and where it takes them from
_SCENARIO_MODEL = {
    "VLLM_MAX_MODEL_LEN": "maxModelLen",
    "VLLM_BLOCK_SIZE": "blockSize",
    "VLLM_ACCELERATOR_MEM_UTIL": "gpuMemoryUtilization",
    "VLLM_MAX_NUM_SEQ": "maxNumSeq",
    "VLLM_MAX_NUM_BATCHED_TOKENS": "maxNumBatchedTokens",
    "MODEL_NAME": "name",
    "MODEL_PATH": "path",
}


def _variables(common: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Text]:
    found = {n: string(at(body, "model", k)) or string(at(common, "model", k)) for n, k in _SCENARIO_MODEL.items()}
    found["TP_SIZE"] = string(at(body, "parallelism", "tensor"))
    return {k: v for k, v in found.items() if v is not None}


def _scenario(s: Mapping[str, Any], ctx: Context) -> list[Launch]:
    """llm-d benchmark scenarios: a model, and vLLM for decode, prefill or alone."""
    common = mapping(s.get("common")) or s
    model = string(at(common, "model", "huggingfaceId")) or string(at(common, "model", "name"))
    labels = {str(k): str(v) for k, v in mapping(at(common, "affinity", "nodeSelector")).items() if isinstance(v, Text)}
    key = string(at(common, "acceleratorType", "labelKey"))
    value = string(at(common, "acceleratorType", "labelValue"))
    if key is not None and value is not None:
        labels[str(key)] = str(value)
    found = accelerators.from_labels(labels, ctx.know)
    out: list[Launch] = []
    for part in ("standalone", "decode", "prefill"):
        body = mapping(s.get(part)) or mapping(common.get(part)) or mapping(at(s, "modelservice", part))
        if not body or truth(body.get("enabled")) is False:
            continue
        settings = {}
        for k, flag in (
            ("tensor", "tensor-parallel-size"),
            ("data", "data-parallel-size"),
            ("pipeline", "pipeline-parallel-size"),
        ):
            v = string(at(body, "parallelism", k))
            if v is not None:
                settings[flag] = v
        length = string(at(body, "model", "maxModelLen")) or string(at(common, "model", "maxModelLen"))
        if length is not None:
            settings["max-model-len"] = length
        share = string(at(common, "model", "gpuMemoryUtilization"))
        if share is not None:
            settings["gpu-memory-utilization"] = share
        setup = Setup(
            container=True,
            cluster=True,
            hardware=found[0] if found else None,
            hardware_source=found[1] if found else None,
            gpu_granted=True,
        )
        own: list[Launch] = []
        command = string(at(body, "vllm", "customCommand"))
        if command is not None:
            from advisor.checks.readers.context import finder, made

            lines = line_of(command) + (1 if command.block else 0)
            own = made(ctx, "helm", finder(ctx).script(command, lines, _variables(common, body)), part, setup)
        if not own:
            extra = at(body, "vllm", "additionalFlags") or at(body, "extraArgs")
            argv = (
                tuple(shell.words(extra, extra.line))
                if isinstance(extra, Text)
                else tuple(w for w in sequence(extra) if isinstance(w, Text))
            )
            own = [
                Launch(
                    file=ctx.file,
                    line=line_of(body),
                    kind="helm",
                    name=part,
                    engine="vllm",
                    argv=argv,
                    setup=setup,
                    resource=part,
                )
            ]
        out += [msgspec.structs.replace(x, model=x.model or model, settings={**settings, **x.settings}) for x in own]
    if not out and model is not None:
        setup = Setup(
            container=True,
            cluster=True,
            hardware=found[0] if found else None,
            hardware_source=found[1] if found else None,
        )
        out = [
            Launch(
                file=ctx.file,
                line=line_of(model),
                kind="helm",
                name=string(s.get("name")),
                engine="vllm",
                model=model,
                setup=setup,
                resource=string(s.get("name")),
            )
        ]
    return out


def read_subcharts(doc: Any, ctx: Context) -> list[Launch]:
    """Values whose keys are engines (`vllm:`, `tgi:`, `ollama:`) with a model or image of their own."""
    out: list[Launch] = []
    if not isinstance(doc, dict):
        return out
    from advisor.checks.readers import kubernetes as k

    for key, body in doc.items():
        engine = {
            "vllm": "vllm",
            "tgi": "tgi",
            "ollama": "ollama",
            "sglang": "sglang",
            "llm-uservice": None,
            "llamacpp": "llama.cpp",
        }.get(str(key))
        if engine is None or not isinstance(body, dict) or truth(body.get("enabled")) is False:
            continue
        model = next(
            (
                string(body.get(n))
                for n in ("LLM_MODEL_ID", "MODEL_ID", "modelId", "model")
                if isinstance(body.get(n), Text)
            ),
            None,
        )
        image = string(at(body, "image", "repository"))
        if model is None and (image is None or ctx.know.image(image) is None):
            continue
        tag = string(at(body, "image", "tag"))
        env = {str(n): v for n, v in body.items() if isinstance(v, Text) and str(n).isupper()}
        serve = body.get("serve_args") or body.get("extraCmdArgs") or body.get("args") or []
        argv = (
            tuple(shell.words(serve, serve.line + (1 if serve.block else 0)))
            if isinstance(serve, Text)
            else tuple(w for w in sequence(serve) if isinstance(w, Text))
        )
        limits, requests = k.resources(body)
        setup = k.gpu_setup(
            Setup(container=True, cluster=True, image=f"{image}:{tag}" if image and tag else image),
            limits,
            requests,
            ctx,
        )
        if not limits:
            setup = msgspec.structs.replace(setup, gpu_granted=None)
        gpu = string(doc.get("gpu"))
        words = accelerators.accelerator(gpu, ctx.know) if gpu else None
        if words:
            setup = msgspec.structs.replace(
                setup,
                hardware=words,
                hardware_source=f"gpu: {gpu}",
                gpu_granted=True,
                gpu_count=whole(doc.get("num_gpus")),
            )
        own_image = string(body.get("image"))
        if own_image is not None:
            setup = msgspec.structs.replace(setup, image=str(own_image))
        out.append(
            Launch(
                file=ctx.file,
                line=line_of(body),
                kind="helm",
                name=str(key),
                engine=engine,
                model=model,
                argv=argv,
                env={**env, **environment(body.get("env"))[0]},
                setup=setup,
                resource=str(key),
            )
        )
    return out
