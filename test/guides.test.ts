import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseDocument } from 'yaml'
import { watchEvent } from '../src/api/native/wire/watch-response.ts'
import { newSecret } from '../src/watches/webhooks/webhook.ts'
import { freePort } from './support/free-port.ts'

/** What guides show and no reader runs in a terminal: files of other programs, and a program that listens. */

const guides = new Map<string, string>()
for await (const page of glob('docs/guides/*.md')) guides.set(page, await readFile(page, 'utf8'))

test.each([...guides])('%s shows files in YAML that can be read', (_, page) => {
  for (const [, code] of page.matchAll(/^```yaml.*?\n(.*?)^```$/gms)) expect(parseDocument(code!).errors).toEqual([])
})

describe('the guide to Home Assistant', () => {
  const page = guides.get('docs/guides/frigate-home-assistant.md')!

  test('reads what events have', () => {
    const fields = [...page.matchAll(/trigger\.json\.data\.(\w+)/g)].map(([, field]) => field)
    expect(fields.length).toBeGreaterThan(2)
    expect(Object.keys(watchEvent.shape.data.shape)).toEqual(expect.arrayContaining(fields))
  })

  test('has a program that passes on what was signed', async () => {
    const [, code] = /^```ts \[relay\.ts\]\n(.*?)^```$/ms.exec(page)!
    const directory = await mkdtemp(join(tmpdir(), 'lookout-relay-'))
    onTestFinished(() => rm(directory, { recursive: true }))
    await writeFile(join(directory, 'relay.ts'), code!)
    const passed: string[] = []
    const home = createServer(async (request, response) => {
      passed.push(await text(request))
      response.end()
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void home.close())
    await once(home, 'listening')
    const port = await freePort()
    const secret = newSecret()
    const address = `http://127.0.0.1:${(home.address() as AddressInfo).port}/api/webhook/x`
    const relay = spawn(process.execPath, ['relay.ts'], {
      cwd: directory,
      env: { WEBHOOK_SECRET: secret, HOME_ASSISTANT: address, PORT: String(port) },
      stdio: 'inherit',
    })
    onTestFinished(() => void relay.kill())
    const send = (body: string, signature: string, time: Date) => {
      const seconds = String(Math.floor(time.getTime() / 1000))
      const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': seconds, 'webhook-signature': signature }
      return fetch(`http://127.0.0.1:${port}`, { method: 'POST', headers, body }).then(
        ({ status }) => status,
        () => null,
      )
    }
    const body = '{"type":"watch.event.started"}'
    const [now, before] = [new Date(), new Date(Date.now() - 3_600_000)]
    const sign = (time: Date) => new Webhook(secret).sign('evt_1', time, body)
    await expect.poll(() => send(body, sign(now), now)).toBe(200)
    expect(await send(`${body} `, sign(now), now)).toBe(401)
    expect(await send(body, sign(before), before)).toBe(401)
    expect(passed).toEqual([body])
  })
})
