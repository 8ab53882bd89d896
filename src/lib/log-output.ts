import { type DestinationStream, destination } from 'pino'

/** JSON lines for machines, or text for people; auto is text on a terminal. */
export type LogFormat = 'auto' | 'json' | 'pretty'

/**
 * Opens the log on standard error. If its pipe is closed or its disk is full, lines are lost and the service continues.
 */
export async function openLog(format: LogFormat): Promise<DestinationStream> {
  const output = destination(2)
  output.on('error', () => {})
  if (format === 'json' || (format === 'auto' && !process.stderr.isTTY)) return output
  // Most servers never need it.
  const { prettyFactory } = await import('pino-pretty')
  const pretty = prettyFactory({
    colorize: process.stderr.isTTY && !process.env.NO_COLOR,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: 'pid,hostname',
    singleLine: true,
  })
  return { write: (line) => void output.write(pretty(line)) }
}
