import { SETTINGS } from '../config/settings.ts'
import { wrap } from './output.ts'

const WIDTH = 120
const COLUMN = 28

/** The help about the settings, which all commands read. */
export const SETTINGS_HELP = `Settings come from the environment, or from lookout.config.yaml in the working directory (LOOKOUT_CONFIG names another
file). In the file, names are in lower case and without LOOKOUT_, as in port: 8080 and rate_limits: { chat: 600 }. The
environment takes precedence. Lists are comma-separated. Defaults are in brackets.
${SETTINGS.map((setting) => entry(setting.variable, `${setting.help} [${setting.default}]`)).join('\n')}
`

/** A name, followed by a text that is broken into lines. */
function entry(name: string, text: string): string {
  return `  ${name}`.padEnd(COLUMN) + wrap(text, WIDTH - COLUMN).join(`\n${' '.repeat(COLUMN)}`)
}
