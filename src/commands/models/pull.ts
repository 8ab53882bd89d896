import { ConfigError } from '../../config/config.ts'
import { readHubSettings } from '../../hub/hub-settings.ts'
import { pull as pullModel } from '../../hub/pull.ts'
import { TUNING } from '../../hub/tuning.ts'
import { memoryForModels } from '../../models/machine-memory.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { printJsonLine } from '../output.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { untilStopped } from '../until-stopped.ts'
import { listCatalogue, measuredSpeed } from './catalogue-list.ts'
import { checkId, warnOfCard } from './known-models.ts'
import { textReport } from './pull-output.ts'
import { examinePulled, readSeconds } from './pulled/examine-pulled.ts'

export const pull: Command = {
  help: `Usage: lookout pull [MODEL] [--quant NAME] [--mmproj FILE | --no-mmproj] [--id NAME]
                    [--no-check | --check-seconds N] [--json]

Fetches a model in the GGUF format and writes a card for it. Run the same command again to resume an interrupted
download. Files go into the cache that hf download, llama-server and vLLM use, and are found there. After the download,
Lookout checks the model: whether it sees, how accurate its boxes are, tools, thoughts. Ctrl-C skips the checks. Those not
done within a minute continue in the background, for half an hour at most; lookout models shows the result.

Without MODEL, it lists the models of Lookout's catalogue, the best fit for this machine first. The list needs no network.

  lookout pull qwen3-vl-4b              a model of the catalogue, in the quantisation that suits this machine
  lookout pull qwen3-vl-4b:Q8_0         another quantisation of it
  lookout pull user/repository          from Hugging Face, in the quantisation that fits the memory
  lookout pull user/repository:Q4_K_M   one of its quantisations, or the path of one of its files
  lookout pull hf://user/repository     the same
  lookout pull https://host/model.gguf  any GGUF file

  --quant      quantisation or file of the repository, as after the colon
  --mmproj     image encoder: a file of the repository, an https address or a file
  --no-mmproj  text only, without an image encoder
  --id         id to serve the model under [user/repository:QUANT]; its name in the catalogue also works
  --no-check   do not examine the model
  --check-seconds
               how long to wait before the checks continue in the background [60]
  --json       progress as JSON Lines; without MODEL, the list as a JSON array

It also reads the variables of Hugging Face's tools: HF_ENDPOINT (or MODEL_ENDPOINT) for a mirror, HF_TOKEN for gated or
private models, HF_HOME or HF_HUB_CACHE for the folder of the files, HF_HUB_OFFLINE, HTTPS_PROXY, NO_PROXY.

${SETTINGS_HELP}`,
  async run(args) {
    const { values, positionals } = readOptions(
      args,
      {
        quant: { type: 'string' },
        mmproj: { type: 'string' },
        'no-mmproj': { type: 'boolean' },
        id: { type: 'string' },
        'no-check': { type: 'boolean' },
        'check-seconds': { type: 'string' },
        json: { type: 'boolean' },
      },
      [],
      ['MODEL'],
    )
    if (values.mmproj !== undefined && values['no-mmproj']) {
      throw new ConfigError('--mmproj and --no-mmproj exclude each other; see --help')
    }
    const seconds = readSeconds(values['check-seconds'])
    const config = await loadConfig()
    const [address] = positionals
    if (address === undefined) {
      const option = (['quant', 'mmproj', 'no-mmproj', 'id', 'no-check', 'check-seconds'] as const).find(
        (name) => values[name] !== undefined,
      )
      if (option !== undefined) throw new ConfigError(`--${option} needs a MODEL; see --help`)
      return listCatalogue(config, values.json ?? false)
    }
    const settings = await readHubSettings(process.env)
    const request = {
      address,
      quant: values.quant ?? null,
      projector: values['no-mmproj'] ? null : (values.mmproj ?? ('auto' as const)),
      id: readId(values.id),
    }
    await checkId(request.id, config)
    const card = await untilStopped(
      async (signal) => {
        const pulled = await pullModel(request, {
          settings,
          store: config.modelStore,
          available: memoryForModels(config.modelMemoryBytes),
          machineSpeed: () => measuredSpeed(config),
          tuning: TUNING,
          signal,
          report: values.json ? printJsonLine : textReport(),
        })
        if (!values.json) await warnOfCard(pulled.file)
        return pulled
      },
      () => {
        const line = process.stderr.isTTY ? '\n' : ''
        process.stderr.write(`${line}lookout: stopped; the same command goes on where it stopped\n`)
      },
    ).catch((error: Error) => {
      if (values.json) printJsonLine({ type: 'error', message: error.message })
      throw error
    })
    if (values['no-check']) return
    await examinePulled({ config, id: card.ids[0]!, file: card.file, seconds, json: values.json ?? false })
  },
}

/** @throws ConfigError */
export function readId(id: string | undefined): string | null {
  if (id === undefined) return null
  if (/^[\x21-\x7e]{1,200}$/.test(id)) return id
  throw new ConfigError(`--id: expected up to 200 visible ASCII characters without spaces, not '${id}'`)
}
