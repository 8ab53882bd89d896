import type { Config } from '../../config/config.ts'
import { checkPromises } from '../../inference/contract/card-checks.ts'
import { describeCard, servableCard } from '../../inference/engines/engines.ts'
import { tellOnce } from '../../lib/tell-once.ts'
import type { ModelCard } from '../../models/card.ts'
import { type KeptExamination, readExamination } from '../../models/kept-examination.ts'
import { findStoredCards } from '../../models/stored-cards.ts'
import { idsOf, readUnlessFatal } from '../../models/unread-cards.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { printJson, printTable, showBytes } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { warn } from '../warn.ts'
import { describeExamination, toJson } from './examined.ts'
import { readKnownCards } from './known-models.ts'
import { NO_MODEL } from './no-model.ts'

export const models: Command = {
  help: `Usage: lookout models [--json]

Lists the models that a server would serve: those that the settings name, and those that were pulled or added. Reads
their cards and the headers of their files, checks what a server would check, and loads nothing. The memory is an
estimate. A pulled or added model that cannot be served is listed with the reason. The last column shows what lookout pull
or lookout doctor measured.

  --json  a JSON array instead of a table

${SETTINGS_HELP}`,
  async run(args) {
    const { values } = readOptions(args, { json: { type: 'boolean' } })
    const config = await loadConfig()
    const unusable: { readonly file: string; readonly error: Error }[] = []
    const known = await readKnownCards(config, warn, (file, error) => unusable.push({ file, error }))
    if (known.length === 0 && unusable.length === 0) warn(NO_MODEL)
    const lacks = tellOnce(warn)
    const stored = (await findStoredCards(config.modelStore)).cards
    const described = await Promise.all(
      known.map(({ card }) => {
        const read = () => describe(servableCard(card, lacks), config.caches)
        // A server does not start if a card of its settings cannot be used, but leaves out one of the store.
        if (!stored.has(card.file)) return read()
        return readUnlessFatal(card.file, read).catch((error: Error) => describeUnusable(card.file, error))
      }),
    )
    const rest = await Promise.all(unusable.map(({ file, error }) => describeUnusable(file, error)))
    const found = await Promise.all(
      [...described, ...rest].map(async (model) => ({
        ...model,
        isStored: stored.has(model.card),
        examination: stored.has(model.card) ? await readExamination(model.card, warn) : null,
      })),
    )
    if (values.json)
      printJson(found.map(({ examination, isStored: _, ...model }) => ({ ...model, examination: toJson(examination) })))
    else {
      printTable(HEAD, found.map(toRow))
      for (const { problem } of found) if (problem !== null) warn(`A stored model is not served: ${problem}`)
    }
  },
}

/** A card of the store that a server leaves out. */
async function describeUnusable(file: string, error: Error) {
  return {
    name: null,
    ids: await idsOf(file),
    aliases: [],
    card: file,
    family: null,
    quantisation: null,
    load: null,
    context_tokens: null,
    file_bytes: null,
    memory_bytes: null,
    problem: error.message,
  }
}

async function describe(card: ModelCard, caches: Config['caches']) {
  const { info, memoryBytes, fileBytes, quantisation, warnings } = await describeCard(card, caches)
  checkPromises(card, info)
  for (const warning of warnings) warn(warning)
  return {
    name: card.name,
    ids: card.serves.map(({ id }) => id),
    aliases: card.serves.flatMap((served) => served.aliases),
    card: card.file,
    family: card.family,
    quantisation,
    load: card.load,
    context_tokens: info.contextTokens,
    file_bytes: fileBytes,
    memory_bytes: memoryBytes,
    problem: null,
  }
}

type Described = (Awaited<ReturnType<typeof describe>> | Awaited<ReturnType<typeof describeUnusable>>) & {
  readonly isStored: boolean
  readonly examination: KeptExamination | null
}

function toRow(model: Described): string[] {
  if (model.problem !== null) {
    return [model.ids.join(', '), '-', '-', '-', '-', '-', '-', 'not served', model.card, '-']
  }
  return [
    [...model.ids, ...model.aliases].join(', '),
    model.name,
    model.file_bytes === null ? 'remote' : showBytes(model.file_bytes),
    model.family ?? '-',
    model.quantisation ?? '-',
    showBytes(model.memory_bytes),
    String(model.context_tokens),
    model.load === 'start' ? 'at start' : 'on first use',
    model.card,
    model.isStored ? describeExamination(model.examination) : '-',
  ]
}

const HEAD = ['ids', 'name', 'size', 'family', 'weights', 'memory', 'context', 'loaded', 'card', 'checked']
