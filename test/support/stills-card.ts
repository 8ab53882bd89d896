import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CARD } from './local-engine.ts'

/** The shipped model's card, as of a model that sees pictures, and no more. For a fake engine: its weights are not there. */
export async function stillsCard(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const { video: _video, audio: _audio, ...card } = JSON.parse(await readFile(CARD, 'utf8'))
  for (const served of card.serves) served.modalities = ['text', 'image']
  const directory = await mkdtemp(join(tmpdir(), 'lookout-card-'))
  const path = join(directory, 'card.json')
  await writeFile(path, JSON.stringify(card))
  return { path, remove: () => rm(directory, { recursive: true }) }
}
