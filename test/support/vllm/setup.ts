import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { availableMemory } from '../../../src/models/machine-memory.ts'
import { outcomeOf, startLookout } from '../command-line.ts'
import { writeShippedCard } from './card.ts'
import { installVllm, NoVllm } from './environment.ts'
import { Vllm, type VllmInstallation } from './server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    vllm: VllmInstallation
    /** Address of the server that all test files share. */
    vllmUrl: string
  }
}

/** What three servers take: PyTorch, 1 GiB of KV cache each, and the exported model. */
const NEEDED_BYTES = 9 * 2 ** 30
/** Matches no test. */
const NO_NAME = /(?!)/

/**
 * Starts the server of vLLM that all test files share. Where that is impossible, the tests are skipped, and the reason is
 * printed.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const report = (line: string) => process.stderr.write(`test:vllm: ${line}\n`)
  await using started = new AsyncDisposableStack()
  try {
    const python = await findVllm(report)
    const folder = await mkdtemp(join(tmpdir(), 'lookout-vllm-model-'))
    started.defer(() => rm(folder, { recursive: true }))
    const model = join(folder, 'model')
    const { code, stderr } = await outcomeOf(startLookout(['export-hf', model]))
    if (code !== 0) throw new Error(stderr)
    const server = started.use(await Vllm.start({ python, model }, { contextTokens: 32_768, maxSequences: 64 }))
    project.provide('vllm', { python, model })
    project.provide('vllmUrl', server.url)
    project.provide('vllmCard', await writeShippedCard(folder, server.url, model))
  } catch (error) {
    if (!(error instanceof NoVllm)) throw error
    report(`SKIPPED: ${error.message}`)
    project.provide('vllm', { python: '', model: '' })
    project.provide('vllmUrl', '')
    project.config.testNamePattern = NO_NAME
  }
  const all = started.move()
  return () => all.disposeAsync()
}

async function findVllm(report: (line: string) => void): Promise<string> {
  if (availableMemory() < NEEDED_BYTES) {
    throw new NoVllm(
      `three servers need ${NEEDED_BYTES / 2 ** 30} GiB of memory, and ${gib(availableMemory())} GiB are free`,
    )
  }
  return installVllm(report)
}

const gib = (bytes: number) => (bytes / 2 ** 30).toFixed(1)
