/**
 * Whether the streams in test/support/vllm/recorded.json are what vLLM answers today. `npm run record-vllm` records them
 * again; `npm test` plays them.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { startEngine } from '../../src/inference/engines/engines.ts'
import { startTestServer } from '../support/server.ts'
import { writeVllmCard } from '../support/vllm/card.ts'
import { type Exchange, Recorder } from '../support/vllm/recording.ts'
import { type Answer, SCENARIOS } from '../support/vllm/scenarios.ts'

const FILE = new URL('../support/vllm/recorded.json', import.meta.url)
const { model } = inject('vllm')

test('recorded streams are what vLLM answers', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-recording-'))
  await using recorder = await Recorder.start(inject('vllmUrl'))
  const card = await writeVllmCard(folder, [recorder.url], { model })
  const server = await startTestServer({ startEngine, environment: { LOOKOUT_MODEL_CARD: card } })
  try {
    for (const { name, path, body, check } of SCENARIOS) {
      const response = await server.post(path, body)
      const answer = (await response.json()) as Answer
      expect(response.status, `${name}: ${JSON.stringify(answer)}`).toBe(200)
      check(answer)
    }
  } finally {
    await server.close()
    await rm(folder, { recursive: true })
  }
  const seen = distinct(recorder.exchanges)
  if (process.env.LOOKOUT_RECORD === '1') await writeFile(FILE, `${JSON.stringify(seen, null, 1)}\n`)
  const recorded: readonly Exchange[] = JSON.parse(await readFile(FILE, 'utf8'))
  expect(seen.map(keyOf).sort()).toEqual(recorded.map(keyOf).sort())
})

/** The first answer to each request. */
function distinct(exchanges: readonly Exchange[]): readonly Exchange[] {
  return [...new Map(exchanges.toReversed().map((one) => [keyOf(one), one])).values()].toReversed()
}

/** The order of a request's fields does not matter. */
function keyOf({ method, path, asked }: Exchange): string {
  return `${method} ${path} ${JSON.stringify(Object.entries(asked ?? {}).sort())}`
}
