import type { ServerLoad } from '../wire/wire.ts'

/** Reads what `GET /metrics` of vLLM says, in Prometheus' text format. Engines of one server (data parallel) are added up. */
export function readLoad(text: string): ServerLoad {
  const samples = [...text.matchAll(SAMPLE)].map(({ groups }) => ({
    name: groups!.name!,
    labels: groups!.labels ?? '',
    value: Number(groups!.value),
  }))
  const values = (name: string) => samples.filter((sample) => sample.name === name).map(({ value }) => value)
  const usage = values('vllm:kv_cache_usage_perc')
  const tokens = samples
    .filter(({ name }) => name === 'vllm:cache_config_info')
    .map(({ labels }) => label(labels, 'num_gpu_blocks') * label(labels, 'block_size'))
  return {
    running: sum(values('vllm:num_requests_running')),
    waiting: sum(values('vllm:num_requests_waiting')),
    kvUsage: usage.length === 0 ? 0 : sum(usage) / usage.length,
    kvTokens: sum(tokens.filter(Number.isFinite)),
    preemptions: sum(values('vllm:num_preemptions_total')),
    prefixHitTokens: sum(values('vllm:prefix_cache_hits_total')),
  }
}

const SAMPLE = /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\S+)(?: \d+)?$/gm

function label(labels: string, name: string): number {
  return Number(new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? Number.NaN)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
