import { SETTINGS_HELP } from '../config/settings-help.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { findCards, loadCard } from '../models/card.ts'
import { type Command, expectNoArguments } from './command.ts'
import { loadConfig } from './load-config.ts'
import { warn } from './warn.ts'

export const models: Command = {
  help: `Usage: lookout models

Reads the cards and the heads of the files that they name, and loads nothing.

${SETTINGS_HELP}`,
  async run(args) {
    expectNoArguments(args)
    for (const file of await findCards((await loadConfig()).modelCards)) {
      const card = await loadCard(file, warn)
      const { info, memoryBytes } = await describeModel(card)
      const ids = card.serves.map(({ id }) => id).join(', ')
      const when = card.load === 'start' ? 'with the service' : 'on first use'
      process.stdout.write(`${ids}
  card:    ${card.file}
  loaded:  ${when}
  context: ${info.contextTokens} tokens
  memory:  about ${(memoryBytes / 2 ** 30).toFixed(2)} GiB\n`)
    }
  },
}
