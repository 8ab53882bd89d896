import { resolve } from 'node:path'
import { ConfigError } from '../../config/config.ts'
import type { NewAdapter } from '../../hub/cache/model-store.ts'
import { addModel, encodersBeside } from '../../hub/local-file.ts'
import { ADAPTER_NAME } from '../../models/card-schema.ts'
import { nameOfWeights } from '../../models/read/weight-files.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'

import { readOptions } from '../options.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { checkId, warnOfCard } from './known-models.ts'
import { readId } from './pull.ts'

export const add: Command = {
  help: `Usage: lookout add FILE [--mmproj FILE] [--adapter FILE[=NAME]]... [--id NAME]

Writes a card for a GGUF file of your own, which stays where it is. For a model in parts, FILE is the first part.

  --mmproj   image encoder
  --adapter  LoRA adapter, which is served as ID:NAME beside the model [NAME: the file's name]
  --id       id to serve the model under [the file's name]

${SETTINGS_HELP}`,
  async run(args) {
    const { values, positionals } = readOptions(
      args,
      { mmproj: { type: 'string' }, adapter: { type: 'string', multiple: true }, id: { type: 'string' } },
      ['FILE'],
    )
    const adapters = readAdapters(values.adapter ?? [])
    const config = await loadConfig()
    const asked = readId(values.id)
    await checkId(asked, config)
    const { card, replaced } = await addModel(config.modelStore, {
      model: positionals[0]!,
      projector: values.mmproj ?? null,
      id: asked,
      adapters,
    })
    const [id] = card.ids
    if (replaced !== null) process.stdout.write(`Replaced the card of ${id} (${replaced.source ?? replaced.model})\n`)
    await warnOfCard(card.file)
    const beside = values.mmproj === undefined ? await encodersBeside(positionals[0]!) : []
    if (beside.length > 0)
      process.stderr.write(
        `lookout: ${id} is served text only. If it takes images or audio, add --mmproj ${beside.join(' or ')}\n`,
      )
    const ids = [id, ...adapters.map(({ name }) => `${id}:${name}`)]
    process.stdout.write(`${ids.join(', ')} ${ids.length === 1 ? 'is' : 'are'} ready\nCard: ${card.file}\n`)
  },
}

/** `FILE=NAME`, or a file whose name is the adapter's. @throws ConfigError */
function readAdapters(texts: readonly string[]): NewAdapter[] {
  const adapters = texts.map((text) => {
    const [, path, name] = /^(.+\.gguf)=(.*)$/i.exec(text) ?? [null, text, nameOfWeights(text)]
    if (!ADAPTER_NAME.test(name!))
      throw new ConfigError(`--adapter: expected a name of letters, digits, dots and dashes, not '${name}'`)
    return { name: name!, path: resolve(path!) }
  })
  const twice = adapters.find(({ name }, at) => adapters.findIndex((other) => other.name === name) !== at)
  if (twice !== undefined) throw new ConfigError(`--adapter: two files have the name '${twice.name}'`)
  return adapters
}
