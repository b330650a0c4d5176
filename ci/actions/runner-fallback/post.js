require("../run.js")("cleanup");
