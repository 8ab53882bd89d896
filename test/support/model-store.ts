import { mkdir, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { ModelCard } from '../../src/models/card.ts'
import { type HeaderValues, writeHeader } from './model-header.ts'
import { shippedCard } from './shipped-model.ts'

/** The model store of a server, filled as `lookout pull` does it. */
export class ModelStore {
  readonly #directory: string

  /** @param data the server's data directory. */
  constructor(data: string) {
    this.#directory = join(data, 'models')
  }

  /** Puts the shipped model into the store, under the name of its folder as its id. @param change changes its card. */
  async put(folder: string, change: (card: ModelCard) => object = (card) => card): Promise<void> {
    const file = shippedCard()
    const { engine, ...card } = JSON.parse(await readFile(file, 'utf8'))
    const at = (name: string) => resolve(dirname(file), name)
    const files =
      engine.type === 'local'
        ? { model: at(engine.model), projector: at(engine.projector) }
        : { tokenizer: at(engine.tokenizer) }
    const serves = [{ ...card.serves[0], id: folder, aliases: [] }]
    await this.write(folder, JSON.stringify(change({ ...card, serves, engine: { ...engine, ...files } })))
  }

  /**
   * Puts the header of a model into the store, with a card that leaves everything to it.
   * @param file where the header is written; in a folder beside the store by default.
   * @returns its path.
   */
  async putHeader(
    folder: string,
    values: HeaderValues,
    file = join(this.#directory, '..', `${folder}.gguf`),
  ): Promise<string> {
    await writeHeader(file, values)
    await this.write(folder, JSON.stringify({ serves: [{ id: folder }], engine: { model: file } }))
    return file
  }

  /** @param text of the card. */
  async write(folder: string, text: string): Promise<void> {
    const unfinished = join(this.#directory, `.${folder}`)
    await mkdir(unfinished, { recursive: true })
    await writeFile(join(unfinished, 'card.json'), text)
    await rm(join(this.#directory, folder), { recursive: true, force: true })
    await rename(unfinished, join(this.#directory, folder))
  }

  /** Sets the time of the card, as if the same text had been written again then. */
  async touch(folder: string, time: Date): Promise<void> {
    await utimes(join(this.#directory, folder, 'card.json'), time, time)
  }

  async remove(folder: string): Promise<void> {
    await rm(join(this.#directory, folder), { recursive: true })
  }
}
