import { writeFile } from 'node:fs/promises'
import { type LocalModelCard, loadLocalCard } from '../../../src/models/card.ts'
import { type TinyModel, writeTinyModel } from './tiny-model.ts'

/**
 * Writes a model as `lookout add` does: its card names two files, and everything else is derived from them.
 * @param engine fields of the card's `engine` beside the files.
 */
export async function writeDerivedModel(
  model: TinyModel,
  folder: string,
  engine: Partial<LocalModelCard['engine']> = {},
): Promise<LocalModelCard> {
  const { file } = await writeTinyModel(model, folder)
  const files = { model: 'model.gguf', projector: 'mmproj.gguf' }
  const card = { serves: [{ id: model.name }], load: 'first_use', engine: { ...files, ...engine } }
  await writeFile(file, JSON.stringify(card))
  return loadLocalCard(file)
}
