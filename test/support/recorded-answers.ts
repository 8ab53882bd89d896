import type { Page } from 'playwright-core'

export interface RecordedAnswer {
  /** Body of the request. */
  readonly body: Record<string, unknown>
  /** The JSON of each event of the response; none of an error. */
  readonly events: readonly unknown[]
}

/**
 * Notes what the page asks at a path and what the server answers, newest last. The page gets each answer when it is whole:
 * a browser keeps nothing of a stream that the page leaves after its last event.
 */
export async function recordAnswers(page: Page, path: string): Promise<readonly RecordedAnswer[]> {
  const recorded: RecordedAnswer[] = []
  await page.route(`**${path}`, async (route) => {
    const response = await route.fetch({ timeout: 0 })
    const text = await response.text()
    const events = text.split('\n\n').filter((event) => event.startsWith('data: {'))
    recorded.push({
      body: route.request().postDataJSON() as Record<string, unknown>,
      events: events.map((event) => JSON.parse(event.slice('data: '.length)) as unknown),
    })
    await route.fulfill({ response, body: text })
  })
  return recorded
}
