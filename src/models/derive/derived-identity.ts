import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { GgufMetadata } from '../../families/gguf.ts'
import type { Origins } from '../origins.ts'
import { type CardFolder, nameOfWeights } from '../read/weight-files.ts'
import type { WrittenCard, WrittenServe } from '../written-card.ts'

export interface IdentitySource {
  readonly card: WrittenCard
  readonly serves: readonly WrittenServe[]
  language(): Promise<GgufMetadata>
  readonly place: CardFolder
  readonly origins: Origins
}

/** Longer texts of a header are cut, because they are shown in lists. */
const MAX_TEXT = 200

/** The fields that identify a model, if the card leaves them out. */
export async function deriveIdentity({ card, serves, language, place, origins }: IdentitySource) {
  const isElsewhere = card.engine.type === 'openai'
  const given = isElsewhere ? card.engine.model : nameOfWeights(card.engine.model)
  const said = async (...keys: readonly string[]) => {
    const header = await language()
    for (const key of keys) {
      const text = cleaned(header.get(key))
      if (text !== '') return { text, origin: key }
    }
    return null
  }
  const [firstId] = serves.map(({ id }) => id)
  const nameOf = async (path: string, id: string) => {
    const { text, origin } = (await said('general.name')) ?? { text: id, origin: 'its id' }
    return origins.note(path, text, origin)
  }
  const owner = async () => {
    const user = /^([^/]+)\//.exec(firstId ?? '')?.[1]
    const { text, origin } =
      (await said('general.organization', 'general.author')) ??
      (user === undefined ? { text: 'unknown', origin: 'default' } : { text: user, origin: 'the id' })
    return origins.note('ownedBy', text.toLowerCase(), origin)
  }
  const license = async () => {
    const { text, origin } = (await said('general.license')) ?? { text: 'unknown', origin: 'default' }
    return origins.note('license', text, origin)
  }
  return {
    name: card.name ?? (await nameOf('name', firstId ?? given)),
    license: card.license ?? (await license()),
    ownedBy: card.ownedBy ?? (await owner()),
    serves: await Promise.all(
      serves.map(async (served, index) => {
        const path = `serves[${index}]`
        const id = served.id ?? origins.note(`${path}.id`, given, isElsewhere ? 'engine.model' : "the file's name")
        return {
          ...served,
          id,
          name: served.name ?? card.name ?? (await nameOf(`${path}.name`, id)),
          created: served.created ?? origins.note(`${path}.created`, await changed(card, place), "the file's date"),
        }
      }),
    ),
  }
}

/** When the weights were last changed, in Unix seconds; 0 if there are none. */
async function changed({ engine }: WrittenCard, { directory }: CardFolder): Promise<number> {
  const found = await stat(resolve(directory, engine.model)).catch(() => null)
  return Math.floor((found?.mtimeMs ?? 0) / 1000)
}

/** A text of a header on one line, without unprintable characters. */
function cleaned(value: unknown): string {
  if (typeof value !== 'string') return ''
  return value
    .toWellFormed()
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
    .slice(0, MAX_TEXT)
}
