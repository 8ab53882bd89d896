import { type Benchmark, print } from './support/benchmark.ts'
import { buildPeer } from './support/peer-build.ts'

export const peer: Benchmark = {
  summary: "builds llama.cpp's own server and benchmark for comparison, in the release that Lookout's engine uses",
  withPeer: true,

  async run({ jobs }) {
    const { release, server, batchedBench } = await buildPeer(jobs)
    print(`The peer, llama.cpp ${release}, is ready:\n  ${server}\n  ${batchedBench}`)
  },
}
