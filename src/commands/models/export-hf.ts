import { exportModel } from '../../hugging-face/export-model.ts'
import type { Command } from '../command.ts'
import { loadConfig } from '../load-config.ts'
import { readOptions } from '../options.ts'
import { SETTINGS_HELP } from '../settings-help.ts'
import { untilStopped } from '../until-stopped.ts'
import { warn } from '../warn.ts'
import { findKnownCard, readKnownCards } from './known-models.ts'

export const exportHf: Command = {
  help: `Usage: lookout export-hf [MODEL] FOLDER

Writes a model as a folder that Hugging Face Transformers and vLLM load: weights, tokenizer, chat template, and how images
are prepared. Models built like Qwen3-VL can be exported, the shipped one among them, with weights in F32, F16, BF16 or
Q8_0. An audio encoder is left out.

  MODEL   the id of a model, a model card, a folder with one, or a GGUF file [the first model]
  FOLDER  a new or empty folder; it is written whole or not at all

${SETTINGS_HELP}`,
  async run(args) {
    const { positionals } = readOptions(args, {}, ['FOLDER'], ['FOLDER'])
    const folder = positionals.at(-1)!
    const config = await loadConfig()
    const model = positionals.length === 1 ? undefined : positionals[0]!
    const { card } = model === undefined ? (await readKnownCards(config))[0]! : await findKnownCard(model, config, warn)
    const { parameters, leavesAudio } = await untilStopped((signal) => exportModel(card, folder, signal))
    const left = leavesAudio ? ' The audio encoder was left out.' : ''
    const size = `${(parameters / 1e6).toFixed(1)} million parameters`
    process.stdout.write(`Wrote ${card.name}, ${size}, to ${folder}.${left}\n`)
  },
}
