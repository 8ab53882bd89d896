import type { Config } from '../config/config.ts'
import { SETTINGS_HELP } from '../config/settings-help.ts'
import { checkPromises } from '../inference/card-checks.ts'
import { describeCard, servableCard } from '../inference/engines/engines.ts'
import { tellOnce } from '../lib/tell-once.ts'
import type { ModelCard } from '../models/card.ts'
import type { Command } from './command.ts'
import { readKnownCards } from './known-models.ts'
import { loadConfig } from './load-config.ts'
import { NO_MODEL } from './no-model.ts'
import { readOptions } from './options.ts'
import { printJson, printTable, showBytes } from './output.ts'
import { warn } from './warn.ts'

export const models: Command = {
  help: `Usage: lookout models [--json]

Lists the models that a server would serve: those that the settings name, and those that were pulled or added. Reads
their cards and the headers of their files, checks what a server would check, and loads nothing. The memory is an
estimate.

  --json  a JSON array instead of a table

${SETTINGS_HELP}`,
  async run(args) {
    const { values } = readOptions(args, { json: { type: 'boolean' } })
    const config = await loadConfig()
    const known = await readKnownCards(config)
    if (known.length === 0) warn(NO_MODEL)
    const lacks = tellOnce(warn)
    const found = await Promise.all(known.map(({ card }) => describe(servableCard(card, lacks), config.caches)))
    if (values.json) printJson(found)
    else printTable(HEAD, found.map(toRow))
  },
}

async function describe(card: ModelCard, caches: Config['caches']) {
  const { info, memoryBytes, fileBytes, quantisation, warnings } = await describeCard(card, caches)
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
    model.file_bytes === null ? 'remote' : showBytes(model.file_bytes),
    model.family ?? '-',
    model.quantisation ?? '-',
    showBytes(model.memory_bytes),
    String(model.context_tokens),
    model.load === 'start' ? 'at start' : 'on first use',
    model.card,
  ]
}

const HEAD = ['ids', 'size', 'family', 'weights', 'memory', 'context', 'loaded', 'card']
