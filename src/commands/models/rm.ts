import { removeAdapter } from '../../hub/cache/model-store.ts'
import { readHubSettings } from '../../hub/hub-settings.ts'
import { removeModel } from '../../hub/remove.ts'
import { formatBytes } from '../../hub/units.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { SETTINGS_HELP } from '../settings-help.ts'

export const rm: Command = {
  help: `Usage: lookout rm MODEL [--keep-files]

Removes a model that was pulled or added: its card, and the files that were fetched for it, unless another model or
another snapshot in the cache uses them. Files given to lookout add stay. An adapter's id, such as base:style, removes the
adapter from its model's card.

  MODEL         its id, or its name in the catalogue; the repository or that name is enough if only one quantisation is here
  --keep-files  remove the card only

${SETTINGS_HELP}`,
  async run(args) {
    const { values, positionals } = readOptions(args, { 'keep-files': { type: 'boolean' } }, ['MODEL'])
    const { modelStore } = await loadConfig()
    const adapter = await removeAdapter(modelStore, positionals[0]!)
    if (adapter !== null) {
      process.stdout.write(`Kept ${adapter}: it is the user's own\nRemoved ${positionals[0]}\n`)
      return
    }
    const { cacheRoot } = await readHubSettings(process.env)
    const { card, freedBytes, kept } = await removeModel(positionals[0]!, {
      store: modelStore,
      cacheRoot,
      keepFiles: values['keep-files'] ?? false,
    })
    for (const { path, reason } of kept) process.stdout.write(`Kept ${path}: ${reason}\n`)
    process.stdout.write(`Removed ${card.ids.join(', ')}; ${formatBytes(freedBytes)} freed\n`)
  },
}
