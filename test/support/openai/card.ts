import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The id under which the Lookout in front serves the model. */
export const ID = 'nano-elsewhere'
/** The environment variable with the key of the servers. */
export const KEY_ENV = 'LOOKOUT_TEST_SERVER_KEY'

/** Writes the card of the shipped model on OpenAI-compatible servers. @returns its path. */
export async function writeOpenAiCard(
  folder: string,
  urls: readonly string[],
  engine: Readonly<Record<string, unknown>> = {},
  fields: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const file = join(folder, `card-${Math.random().toString(36).slice(2)}.json`)
  const card = {
    family: 'lookout',
    serves: [{ id: ID, reasoning: true }],
    image: {},
    engine: {
      type: 'openai',
      urls,
      model: 'service-mk1.5',
      apiKeyEnv: KEY_ENV,
      contextTokens: 32_768,
      constraints: 'json_schema',
      ...engine,
    },
    // The servers that the tests run show the schema to the model themselves.
    schemaPrompt: null,
    ...fields,
  }
  await writeFile(file, JSON.stringify(card))
  return file
}
