import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CARD } from '../local-engine.ts'
import { MODEL } from './server.ts'

/** The id under which Lookout serves it. */
export const ID = 'nano-on-vllm'

/** Writes a card that leaves most to the exported model on servers of vLLM. @returns its path. */
export async function writeVllmCard(
  folder: string,
  urls: readonly string[],
  { model, ...engine }: { readonly model: string } & Readonly<Record<string, unknown>>,
  schemaPrompt: string | null = 'Answer as JSON with this schema: {schema}',
): Promise<string> {
  return write(folder, {
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
  })
}

/** Writes the shipped model's own card, but for the engine and for sound, which vLLM is not asked about. @returns its path. */
export async function writeShippedCard(folder: string, url: string, model: string): Promise<string> {
  const { audio: _, ...card } = JSON.parse(await readFile(CARD, 'utf8'))
  const { contextTokens, maxSequences } = card.engine
  return write(folder, {
    ...card,
    serves: card.serves.map((served: { readonly modalities: readonly string[] }) => ({
      ...served,
      modalities: served.modalities.filter((modality) => modality !== 'audio'),
    })),
    engine: { type: 'vllm', urls: [url], model: MODEL, tokenizer: model, contextTokens, maxSequences },
  })
}

async function write(folder: string, card: object): Promise<string> {
  const file = join(folder, 'card.json')
  await writeFile(file, JSON.stringify(card))
  return file
}
