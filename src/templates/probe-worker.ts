/** The entry point of the thread that probes one chat template. */
import { parentPort, workerData } from 'node:worker_threads'
import { Template } from '@huggingface/jinja'
import { probeTemplate, type TemplateFindings } from './probe.ts'

/** The findings, or why the template cannot be used. */
export type ProbeAnswer = TemplateFindings | { readonly failure: string }

function answer(source: string): ProbeAnswer {
  try {
    const template = new Template(source)
    return probeTemplate(source, (variables) => template.render(variables))
  } catch (error) {
    const { message, cause } = error as Error
    return { failure: cause instanceof Error ? `${message}: ${cause.message}` : message }
  }
}

parentPort!.postMessage(answer(workerData as string))
