require("../run.js")("acquire");
