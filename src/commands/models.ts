import type { Config } from '../config/config.ts'
import { SETTINGS_HELP } from '../config/settings-help.ts'
import { withAliases } from '../inference/aliases.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { findCards, loadCard, type ModelCard } from '../models/card.ts'
import { findStoredCards } from '../models/stored-cards.ts'
import type { Command } from './command.ts'
import { loadConfig } from './load-config.ts'
import { readOptions } from './options.ts'
import { printJson } from './output.ts'
import { warn } from './warn.ts'

export const models: Command = {
  help: `Usage: lookout models [--json]

Reads the model cards and the headers of the files that they name, and loads nothing.

  --json  a JSON array instead of text

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
    else process.stdout.write(found.map(toText).join(''))
  },
}

async function describe(card: ModelCard, caches: Config['caches']) {
  const { info, memoryBytes } = await describeModel(card, caches)
  return {
    ids: card.serves.map(({ id }) => id),
    aliases: card.serves.flatMap((served) => served.aliases),
    card: card.file,
    family: card.family,
    load: card.load,
    context_tokens: info.contextTokens,
    memory_bytes: memoryBytes,
  }
}

function toText(model: Awaited<ReturnType<typeof describe>>): string {
  return `${model.ids.join(', ')}
${model.aliases.length === 0 ? '' : `  aliases: ${model.aliases.join(', ')}\n`}  card:    ${model.card}
  family:  ${model.family ?? 'none'}
  loaded:  ${model.load === 'start' ? 'with the service' : 'on first use'}
  context: ${model.context_tokens} tokens
  memory:  about ${(model.memory_bytes / 2 ** 30).toFixed(2)} GiB\n`
}
