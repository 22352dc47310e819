"use strict";
startExplorer(new ServerBackend());
