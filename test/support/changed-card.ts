import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ModelCard } from '../../src/models/card.ts'
import { CARD } from './local-engine.ts'

interface TemporaryCard {
  readonly path: string
  remove(): Promise<void>
}

/** The shipped model's card, as of a model that sees pictures, and no more. */
export async function stillsCard(): Promise<TemporaryCard> {
  return changedCard(({ video: _video, audio: _audio, ...card }) => {
    const serves = card.serves.map((served) => ({ ...served, modalities: ['text', 'image'] }))
    return { ...card, serves }
  })
}

/** The shipped model's card with changes. For a fake engine: its weights are not there. */
export async function changedCard(change: (card: ModelCard) => object): Promise<TemporaryCard> {
  const card = change(JSON.parse(await readFile(CARD, 'utf8')))
  const directory = await mkdtemp(join(tmpdir(), 'lookout-card-'))
  const path = join(directory, 'card.json')
  await writeFile(path, JSON.stringify(card))
  return { path, remove: () => rm(directory, { recursive: true }) }
}
