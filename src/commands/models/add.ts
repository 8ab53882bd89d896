import { addModel, encodersBeside } from '../../hub/local-file.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { warnOfCard } from './known-models.ts'
import { readId } from './pull.ts'

export const add: Command = {
  help: `Usage: lookout add FILE [--mmproj FILE] [--id NAME]

Writes a card for a GGUF file of your own, which stays where it is. Of a model in parts, FILE is the first one.

  --mmproj  image encoder
  --id      id to serve the model under [the file's name]

${SETTINGS_HELP}`,
  async run(args) {
    const { values, positionals } = readOptions(args, { mmproj: { type: 'string' }, id: { type: 'string' } }, ['FILE'])
    const { modelStore } = await loadConfig()
    const { card, replaced } = await addModel(modelStore, {
      model: positionals[0]!,
      projector: values.mmproj ?? null,
      id: readId(values.id),
    })
    const [id] = card.ids
    if (replaced !== null) process.stdout.write(`Replaced the card of ${id} (${replaced.source ?? replaced.model})\n`)
    await warnOfCard(card.file)
    const beside = values.mmproj === undefined ? await encodersBeside(positionals[0]!) : []
    if (beside.length > 0)
      process.stderr.write(
        `lookout: ${id} is served text only. If it takes images or audio, add --mmproj ${beside.join(' or ')}\n`,
      )
    process.stdout.write(`${id} is ready\nCard: ${card.file}\n`)
  },
}
