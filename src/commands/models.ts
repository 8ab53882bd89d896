import type { Config } from '../config/config.ts'
import { SETTINGS_HELP } from '../config/settings-help.ts'
import { withAliases } from '../inference/aliases.ts'
import { checkPromises } from '../inference/card-checks.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { findCards, loadCard, type ModelCard } from '../models/card.ts'
import { findStoredCards } from '../models/stored-cards.ts'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readOptions } from './options.ts'
import { printJson, printTable, showBytes } from './output.ts'
import { warn } from './warn.ts'

export const models: Command = {
  help: `Usage: lookout models [--json]

Reads the model cards and the headers of the files that they name, checks what a server would check before it loads
them, and loads nothing. The memory is an estimate.

  --json  a JSON array instead of a table

${SETTINGS_HELP}`,
  async run(args) {
    const { values } = readOptions(args, { json: { type: 'boolean' } })
    const { modelCards, modelStore, aliases, caches } = await loadConfig()
    const files = await findCards(modelCards)
    const cards = await Promise.all(files.map((file) => loadCard(file, warn)))
    const isStored = (await findStoredCards(modelStore)).cards.size > 0
    const found = await Promise.all(
      withAliases(cards, aliases, isStored ? warn : null).map((card) => describe(card, caches)),
    )
    if (values.json) printJson(found)
    else printTable(HEAD, found.map(toRow))
  },
}

async function describe(card: ModelCard, caches: Config['caches']) {
  const { info, memoryBytes, fileBytes, quantisation, warnings } = await describeModel(card, caches)
  checkPromises(card, info)
  for (const warning of warnings) warn(warning)
  return {
    ids: card.serves.map(({ id }) => id),
    aliases: card.serves.flatMap((served) => served.aliases),
    card: card.file,
    family: card.family,
    quantisation,
    load: card.load,
    context_tokens: info.contextTokens,
    file_bytes: fileBytes,
    memory_bytes: memoryBytes,
  }
}

function toRow(model: Awaited<ReturnType<typeof describe>>): string[] {
  return [
    [...model.ids, ...model.aliases].join(', '),
    showBytes(model.file_bytes),
    model.family ?? '-',
    model.quantisation ?? '-',
    showBytes(model.memory_bytes),
    String(model.context_tokens),
    model.load === 'start' ? 'at start' : 'on first use',
    model.card,
  ]
}

const HEAD = ['ids', 'size', 'family', 'weights', 'memory', 'context', 'loaded', 'card']
