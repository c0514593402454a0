/** Routes whose body is bytes of any type: they read `request.raw` themselves, and no parser buffers anything. */
import type { App } from './deps.ts';

/** Registers `routes` in a scope of their own that parses no body. */
export function withRawBodies(app: App, routes: (scope: App) => void): void {
  app.register(async (scope: App) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    routes(scope);
  });
}
