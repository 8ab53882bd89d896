import type { Service } from '../service.ts'

/**
 * Keeps the process alive over an error that nothing handled, which is a bug: it is logged with its stack and counted, and
 * the requests of everybody else go on.
 *
 * Node advises to end the process after an uncaught exception, because what was under way may be half done. Here that is
 * at most one request: files and usage change in transactions, models run in processes of their own, and requests share
 * nothing that one of them leaves half written. Ending the process would cut off every stream and unload the models, and
 * a client that knows one such bug could repeat that.
 */
export function keepServing(service: Pick<Service, 'noteFault'>): void {
  process.on('unhandledRejection', (reason) => service.noteFault('rejection', reason))
  process.on('uncaughtException', (error) => service.noteFault('exception', error))
}
