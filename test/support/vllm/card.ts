import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { MODEL } from './server.ts'

/** The id under which Lookout serves it. */
export const ID = 'nano-on-vllm'

/** Writes the card of the shipped model on servers of vLLM. @returns its path. */
export async function writeVllmCard(
  folder: string,
  urls: readonly string[],
  { model, ...engine }: { readonly model: string } & Readonly<Record<string, unknown>>,
  schemaPrompt: string | null = 'Answer as JSON with this schema: {schema}',
): Promise<string> {
  const file = join(folder, 'card.json')
  const card = {
    name: 'Lookout Nano on vLLM',
    license: 'MIT',
    ownedBy: 'lookout',
    family: 'lookout',
    serves: [
      {
        id: ID,
        capabilities: ['response_format_json_schema', 'regex', 'tool_calling'],
        modalities: ['text', 'image', 'video'],
        outputFormats: ['text', 'point', 'box', 'polygon', 'clip'],
        reasoning: true,
      },
    ],
    engine: { type: 'vllm', urls, model: MODEL, tokenizer: model, contextTokens: 8192, maxSequences: 16, ...engine },
    schemaPrompt,
  }
  await writeFile(file, JSON.stringify(card))
  return file
}
