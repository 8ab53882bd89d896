import { createInterface } from 'node:readline'
import type { FinishedReply } from '../../client/answers.ts'
import type { LookoutClient } from '../../client/client.ts'
import { type Medium, namedFault, sendMedia } from '../asking/media.ts'
import { dim, note, print } from '../asking/screen.ts'
import { forTerminal } from '../for-terminal.ts'

/** Null to print nothing. */
export type Live = { readonly showsThoughts: boolean } | null

/** A conversation about media that are sent once. Disposing of it removes uploaded files. */
export interface Chat extends AsyncDisposable {
  /** Sends the next turn, and prints the reply as it arrives. */
  ask(text: string, live: Live): Promise<FinishedReply>
}

export async function startChat(
  client: LookoutClient,
  media: readonly Medium[],
  body: object,
  system: string | undefined,
): Promise<Chat> {
  await using starting = new AsyncDisposableStack()
  let parts = (await sendMedia(media, client, starting)).map(({ part }) => part)
  const messages: object[] = system === undefined ? [] : [{ role: 'system', content: system }]
  const uploads = starting.move()
  return {
    ask: async (text, live) => {
      messages.push({ role: 'user', content: parts.length === 0 ? text : [...parts, { type: 'text', text }] })
      parts = []
      const reply = await streamReply(client, { ...body, messages }, live).catch((error: unknown) => {
        throw namedFault(
          error,
          media.map(({ name }) => name),
        )
      })
      messages.push({ role: 'assistant', content: reply.content })
      return reply
    },
    [Symbol.asyncDispose]: () => uploads.disposeAsync(),
  }
}

async function streamReply(client: LookoutClient, body: object, live: Live): Promise<FinishedReply> {
  let last = ''
  let isThinking = false
  const reply = await client.chat(body, async ({ content, reasoning }) => {
    if (live?.showsThoughts && reasoning !== '') {
      process.stderr.write(dim(forTerminal(reasoning)))
      isThinking = true
    }
    if (live === null || content === '') return
    if (isThinking) process.stderr.write('\n')
    isThinking = false
    await print(content)
    last = content
  })
  if (live && !last.endsWith('\n')) await print('\n')
  if (reply.finishReason === 'length') note('the reply was cut off at its token limit')
  else if (reply.finishReason !== 'stop') note(`the reply ended early: ${reply.finishReason}`)
  return reply
}

/** Asks what is typed, line by line, until an empty line or the end of the input. */
export async function converse(
  chat: Chat,
  live: Live,
  onReply: (reply: FinishedReply) => Promise<void>,
): Promise<void> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' })
  // The terminal is in raw mode, where Ctrl-C is a key.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  note('ask a question; an empty line ends the chat')
  lines.prompt()
  for await (const line of lines) {
    if (line.trim() === '') break
    await onReply(await chat.ask(line, live))
    lines.prompt()
  }
  lines.close()
}
