import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ModelCard } from '../../src/models/card.ts'
import { CARD } from './local-engine.ts'

export interface TemporaryCard {
  readonly path: string
  remove(): Promise<void>
}

/** The shipped model's card, changed to support images but no video or audio. */
export async function imageOnlyCard(): Promise<TemporaryCard> {
  return changedCard(({ video: _video, audio: _audio, ...card }) => {
    const serves = card.serves.map((served) => ({ ...served, modalities: ['text', 'image'] }))
    return { ...card, serves }
  })
}

/** The shipped model's card without the fits of its probabilities, which are those of its weights. */
export async function uncalibratedCard(): Promise<TemporaryCard> {
  return changedCard(({ decision: _decision, detection: _detection, ...card }) => card)
}

/** The shipped model's card with changes. Only for fake engines, because the weights are not beside it. */
export async function changedCard(change: (card: ModelCard) => object): Promise<TemporaryCard> {
  const card = change(JSON.parse(await readFile(CARD, 'utf8')))
  const directory = await mkdtemp(join(tmpdir(), 'lookout-card-'))
  const path = join(directory, 'card.json')
  await writeFile(path, JSON.stringify(card))
  return { path, remove: () => rm(directory, { recursive: true }) }
}
