import { Samples } from '../http/samples.ts'
import type { ServerLoad } from '../wire/wire.ts'

/** Reads what `GET /metrics` of SGLang says. */
export function readLoad(text: string): ServerLoad {
  const samples = new Samples(text)
  return {
    running: samples.sum('sglang:num_running_reqs'),
    waiting: samples.sum('sglang:num_queue_reqs'),
    kvUsage: samples.mean('sglang:token_usage'),
    kvTokens: samples.sum('sglang:max_total_num_tokens'),
    preemptions: samples.sum('sglang:num_retracted_requests_total'),
  }
}
