import type { Service } from '../service.ts'

/**
 * Keeps the process alive after an unhandled error, which is a bug: it is logged with its stack and counted, and all
 * other requests go on.
 *
 * Node advises ending the process after an uncaught exception, because work in progress may be half done. Here that is
 * at most one request: files and usage change in transactions, models run in processes of their own, and requests share
 * no state that one of them could leave half written. Ending the process would cut off every stream and unload the
 * models, and a client that knows such a bug could repeat that.
 */
export function keepServing(service: Pick<Service, 'noteFault'>): void {
  process.on('unhandledRejection', (reason) => service.noteFault('rejection', reason))
  process.on('uncaughtException', (error) => service.noteFault('exception', error))
}
