// Starts the third party's Stripe double on a free port of 127.0.0.1 and prints `listening PORT`.
// Its own command listens on every interface and wants a fixed port.
"use strict";

process.env.LOG_LEVEL = process.env.LOG_LEVEL || "silent";
require("loglevel").setLevel(process.env.LOG_LEVEL);

const http = require("http");
const { createExpressApp } = require("stripe-stateful-mock");

const server = http.createServer(createExpressApp());
server.listen(Number(process.env.PORT || 0), "127.0.0.1", () => console.log(`listening ${server.address().port}`));

// Live as long as the process that started us, whatever ends it.
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(0), 500);
