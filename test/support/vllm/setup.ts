import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { availableMemory } from '../../../src/models/machine-memory.ts'
import { outcomeOf, startLookout } from '../command-line.ts'
import { installVllm, NoVllm } from './environment.ts'
import type { VllmInstallation } from './server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    vllm: VllmInstallation
  }
}

/** What two servers take: PyTorch, 1 GiB of KV cache each, and the exported model. */
const NEEDED_BYTES = 6 * 2 ** 30

/** Makes ready what servers of vLLM need. Where that is impossible, the tests are skipped, and the reason is printed. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const report = (line: string) => process.stderr.write(`test:vllm: ${line}\n`)
  const folder = await mkdtemp(join(tmpdir(), 'lookout-vllm-model-'))
  const model = join(folder, 'model')
  const { code, stderr } = await outcomeOf(startLookout(['export-hf', model]))
  if (code !== 0) throw new Error(stderr)
  project.provide('vllm', { python: await findVllm(report), model })
  return () => rm(folder, { recursive: true })
}

async function findVllm(report: (line: string) => void): Promise<string | null> {
  try {
    if (availableMemory() < NEEDED_BYTES) {
      throw new NoVllm(
        `two servers need ${NEEDED_BYTES / 2 ** 30} GiB of memory, and ${gib(availableMemory())} GiB are free`,
      )
    }
    return await installVllm(report)
  } catch (error) {
    if (!(error instanceof NoVllm)) throw error
    report(`SKIPPED: ${error.message}`)
    return null
  }
}

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1)
