import { Samples } from '../http/samples.ts'
import type { ServerLoad } from '../wire/wire.ts'

/** Reads what `GET /metrics` of vLLM says. */
export function readLoad(text: string): ServerLoad {
  const samples = new Samples(text)
  return {
    running: samples.sum('vllm:num_requests_running'),
    waiting: samples.sum('vllm:num_requests_waiting'),
    kvUsage: samples.mean('vllm:kv_cache_usage_perc'),
    kvTokens: samples.sumOfLabels('vllm:cache_config_info', (label) => label('num_gpu_blocks') * label('block_size')),
    preemptions: samples.sum('vllm:num_preemptions_total'),
  }
}
